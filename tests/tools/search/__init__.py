"""The one search, whichever program runs it."""
