"""Results kept short: at most 8,000 bytes, shallow, with a summary, and a way to all that was left out."""
