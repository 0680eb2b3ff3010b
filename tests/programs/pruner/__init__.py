"""`mcp-pruner`, on both of its wires and in the run of an agent."""
