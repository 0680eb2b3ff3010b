"""How a tool is written: parameters, rules."""
