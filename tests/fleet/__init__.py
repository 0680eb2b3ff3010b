"""Many boxes behind one endpoint: the bus, its credentials, members and gateways, against real NATS servers."""
