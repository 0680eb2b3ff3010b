"""Claims about the daemon, each checked by running it."""
