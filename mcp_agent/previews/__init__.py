"""What programs of a conversation serve on a port of this machine, shown to the person of that conversation."""
