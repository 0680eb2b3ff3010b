"""Live processes: how they are started, read, kept and ended. Knows the hub by name only, and no wire."""
