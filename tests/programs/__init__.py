"""The other programs of this package."""
