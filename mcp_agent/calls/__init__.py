"""The one path of a call: the call, the dispatcher, its observers."""
