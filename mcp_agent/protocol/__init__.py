"""JSON-RPC and MCP as plain functions over plain objects. No sockets here."""
