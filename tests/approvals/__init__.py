"""Calls that wait for the owner."""
