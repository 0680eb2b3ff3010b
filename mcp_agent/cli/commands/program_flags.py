"""What the flags of `mcp-agent wrap` and `mount` have in common: the program, and pairs of a name and a value."""

from __future__ import annotations

import os
from pathlib import Path

from registry.user_error import UserError


def absolute_program(program: str) -> str:
    """A program that is named by its path, so that the daemon, in a folder of its own, finds the same one."""
    return str(Path(program).expanduser().absolute()) if os.sep in program else program


def parse_pair(text: str, separator: str, flag: str) -> tuple[str, str]:
    """`NAME=VALUE`, or with another separator. Raises UserError."""
    name, found, value = text.partition(separator)
    if not (found and name.strip()):
        raise UserError(f"{flag} needs NAME{separator}VALUE, not {name[:40]!r}")
    return name.strip(), value.strip()
