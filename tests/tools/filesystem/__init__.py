"""Tests of the filesystem tools on real files."""
