"""The one path of a call: the call, the dispatcher, the shaping of its result, its observers."""
