"""What stands behind the pruning tools: worker processes and the remote service."""
