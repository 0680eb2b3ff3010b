"""Tests of the Tools page."""
