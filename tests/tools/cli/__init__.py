"""Wrapped command line programs."""
