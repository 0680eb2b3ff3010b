"""The daemon: composes the tools and the registry, and speaks to clients."""

import gc

__version__ = "0.1.0"
# How our own commands name themselves to the daemon; the version follows.
COMMAND_AGENT = "mcp-agent-command/"
# Sent by a daemon that has mounted this one, with the name of its start. It is offered only our own tools, so that
# daemons which mount each other come to an end.
MOUNTED_BY_HEADER = b"x-mcp-agent-mounted-by"
# The same in the environment of a server that is started.
MOUNTED_BY_VARIABLE = "MCP_AGENT_MOUNTED_BY"
# Sent by the bridge of `stdio --attach`: its client has a pipe, where output is rate-limited.
BRIDGE_HEADER = b"x-mcp-agent-bridge"
# Sent by that bridge and by `token header`: the folder that the client was started in, percent-encoded.
FOLDER_HEADER = b"x-mcp-agent-folder"
# Python's own, which are others in each version: after how many objects, and how many collections of younger ones, it
# looks for garbage. Read before `cli.entry` puts it off.
USUAL_THRESHOLDS = gc.get_threshold()
