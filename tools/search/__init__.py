"""The one search: by name and by content, with ripgrep or what stands in for it."""

# The catalog need not import this room to look for tools.
DECLARES_TOOLS = False
