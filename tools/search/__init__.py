"""The one search: by name and by content, with ripgrep or what stands in for it."""
