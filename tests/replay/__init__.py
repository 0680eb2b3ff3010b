"""Recorded tool calls of coding agents, asked again of this daemon and of comparable servers."""
