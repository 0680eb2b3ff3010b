"""The Tools page: its files, and the one-time link that opens it."""
