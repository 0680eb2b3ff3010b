"""Calls that wait for the owner: they run when the owner says so, on the Tools page or by a command."""
