"""How a tool is written: parameters, records, rules."""
