"""Programs that people connect, the real ones and their habits."""
