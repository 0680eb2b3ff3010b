"""The artifact tool."""
