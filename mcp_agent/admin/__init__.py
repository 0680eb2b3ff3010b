"""What the owner looks at and switches: /api, /health, /metrics."""
