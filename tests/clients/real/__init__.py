"""The coding clients themselves, with a scripted model: `make test-clients`."""
