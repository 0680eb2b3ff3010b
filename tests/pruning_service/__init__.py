"""What stands behind pruning: an external service, worker processes, kept texts."""
