"""The four shell tools: run one command, or start, use and stop a session."""
