"""The dashboard: its files, its API, and what the owner looks at and switches: /api, /health, /metrics."""
