"""What can be read by URI."""
