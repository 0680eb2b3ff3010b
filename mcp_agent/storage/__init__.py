"""What the daemon stores on disk: artifacts and the audit log."""
