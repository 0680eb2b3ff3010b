"""Many boxes behind one endpoint, over NATS."""
