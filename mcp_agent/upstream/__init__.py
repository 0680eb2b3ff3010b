"""Other MCP servers, mounted as categories of tools."""
