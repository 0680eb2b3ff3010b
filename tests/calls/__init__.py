"""The path of one call: its arguments, its progress, its end, and what a tool declares."""
