"""The official conformance suites, and tools that hold us to what we publish."""
