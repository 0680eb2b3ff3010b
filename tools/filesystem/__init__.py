"""The filesystem tools, one file a tool."""
