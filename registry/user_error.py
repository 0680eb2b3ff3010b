"""The errors that a person at the command line can correct. A command prints the message, without a traceback."""

from __future__ import annotations


class UserError(Exception):
    """What was asked for failed. The command line ends with `exit_code`."""

    exit_code = 1


class UsageError(UserError):
    """What was typed, or is in a file of settings, cannot be used: a name that does not exist, a value out of range."""

    exit_code = 2
