"""The process itself."""
