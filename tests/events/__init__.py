"""What clients hear of sessions, on every wire."""
