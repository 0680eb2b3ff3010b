"""tools.json and who may use which tool."""
