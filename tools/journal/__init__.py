"""Changes to files that are made whole or not at all, and can be taken back."""

DECLARES_TOOLS = False
