"""The daemon as a terminal of Open WebUI: files, processes, a shell, and the tools."""
