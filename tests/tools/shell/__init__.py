"""The four shell tools, called with real processes."""
