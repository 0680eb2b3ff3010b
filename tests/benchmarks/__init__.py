"""`make bench`: how fast the daemon is, against the floor and against the programs people use instead of it."""
