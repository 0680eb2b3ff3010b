"""Files as the tools need them: paths, text, lines, revisions, atomic writes and the undo journal."""

# The catalog need not import this room to look for tools.
DECLARES_TOOLS = False
