"""JSON-RPC and MCP, message by message."""
