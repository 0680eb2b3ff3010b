"""What the daemon can do: files, processes and text. Knows nothing of MCP, HTTP or JSON-RPC."""
