"""The daemon: composes the tools and the registry, and speaks to clients."""

__version__ = "0.1.0"
