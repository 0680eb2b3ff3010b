"""Programs besides the daemon."""
