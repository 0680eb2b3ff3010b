"""The four shell tools: one command at a time, and sessions that go on."""
