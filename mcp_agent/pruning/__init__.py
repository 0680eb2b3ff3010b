"""What stands behind the pruning tools: the engine's processes, the external service, and what was pruned."""
