"""What clients hear without having asked: the hub, subscriptions and cursors over session output."""
