"""Tests of the tools, each with a real context."""
