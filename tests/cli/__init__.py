"""The commands as a person types them, and `serve` from its start to its end."""
