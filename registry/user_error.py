"""The error that a person at the command line can correct."""

from __future__ import annotations


class UserError(Exception):
    """The command line prints the message, without a traceback, and ends with `exit_code`."""

    exit_code = 2
