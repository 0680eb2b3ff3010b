"""Sessions: their output, their limits, their end."""
