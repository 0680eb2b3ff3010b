"""How a tool is written: its declaration, its parameters, its results and its errors."""
