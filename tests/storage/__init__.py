"""What is kept on disk: artifacts and the audit log."""
