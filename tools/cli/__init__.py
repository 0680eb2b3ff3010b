"""Tools made from the command line programs that `wrap` names in tools.json."""

# The catalog need not import this room to look for tools.
DECLARES_TOOLS = False
