"""The daemon: composes the tools and the registry, and speaks to clients."""

__version__ = "0.1.0"
# How our own commands name themselves to the daemon; the version follows.
COMMAND_AGENT = "mcp-agent-command/"
