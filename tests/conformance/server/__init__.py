"""What the official conformance suites want to find on a server: tools, resources and prompts of given names."""
