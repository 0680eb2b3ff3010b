"""The programs that people connect to the daemon: where each keeps its configuration, and what we write there."""
