"""A mounted server as tools.json describes it: another MCP server, whose tools become those of a category.

A secret need not stand in the file: in `env` and `headers`, `{"file": PATH}` or `{"variable": NAME}` names its place.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from registry.user_error import UserError
from tools.files import disk

_MOST_SECRET_BYTES = 64 * 1024


class SecretPlace(Struct, frozen=True):
    """Where a value is that does not stand in tools.json: a file, or a variable of the daemon."""

    file: str = ""
    variable: str = ""

    def read(self) -> str:
        """The value. Raises UserError, whose message does not have it."""
        if self.variable:
            value = os.environ.get(self.variable)
            if value is None:
                raise UserError(f"the variable {self.variable} is not set in the daemon's environment")
            return value
        try:
            data = disk.read_small_file(Path(self.file).expanduser(), _MOST_SECRET_BYTES)
            return data.decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise UserError(f"{self.file} cannot be read: {reason}") from None


Values = Mapping[str, str | SecretPlace]


class Mount(Struct, frozen=True, rename={"without": "except"}):
    """One mounted server: a command for stdio, or a URL."""

    category: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Values = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Values = field(default_factory=dict)
    # The tools that are wanted; None is all of them. `without` are those that are not.
    only: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    # Names of arguments that are paths: the deny rules for paths hold for them.
    paths: tuple[str, ...] = ()
    # One server process for all, or one for each caller.
    instance: Literal["shared", "caller"] = "shared"
    timeout_seconds: float = 120.0

    @property
    def is_per_caller(self) -> bool:
        return self.instance == "caller"

    def wants(self, tool: str) -> bool:
        return (self.only is None or tool in self.only) and tool not in self.without
