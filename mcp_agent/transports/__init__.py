"""The wires. Each only moves bytes between a client and the protocol."""
