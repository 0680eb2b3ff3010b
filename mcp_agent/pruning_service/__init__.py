"""What stands behind the pruning tools: worker processes, the remote service, the kept texts."""
