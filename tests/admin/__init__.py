"""What an owner sees and switches while the daemon runs."""
