"""Results kept short: what they promise, on every tool and every wire."""
