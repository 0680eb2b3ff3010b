"""What the daemon keeps on disk: artifacts and the audit log."""
