"""How a tool is written: its declaration, its parameters, its results and its errors."""

# The catalog need not import this room to look for tools.
DECLARES_TOOLS = False
