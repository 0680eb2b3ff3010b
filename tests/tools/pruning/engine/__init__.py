"""The pruning engine: text and question in, lines out."""
