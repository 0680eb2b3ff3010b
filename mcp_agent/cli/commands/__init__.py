"""The commands of `mcp-agent`, one module a family."""
