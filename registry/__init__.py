"""Which tools exist and who may use them. Knows tools; knows nothing of transports."""
