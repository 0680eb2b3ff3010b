"""OAuth: how clients of others get access."""
