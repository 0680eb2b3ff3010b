"""The process itself: logs, memory, signals, the runtime file, optional packages."""
