"""How a tool is written: its declaration, its parameters, its results, its context and its errors."""
