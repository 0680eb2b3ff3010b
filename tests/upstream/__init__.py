"""Mounted servers: their tools under our gate, their failures, their end, and what is kept of them."""
