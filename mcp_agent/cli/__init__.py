"""The command line: parser, printing, commands, and the clients that `connect` writes to."""
