"""The program `mcp-pruner`: the pruning tools alone, over stdio or HTTP."""
