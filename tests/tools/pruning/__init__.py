"""The pruning tools within their root."""
