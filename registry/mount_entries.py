"""Reads the `mount` of a category in tools.json: another MCP server, whose tools become those of the category.

    "mount": {"command": "npx", "args": ["@playwright/mcp", "--headless"], "env": {"DEBUG": "pw:api"}}
    "mount": {"url": "https://example.com/mcp", "headers": {"Authorization": {"file": "~/.secret"}}}

A secret need not stand in the file: in `env` and `headers`, `{"file": PATH}` or `{"variable": NAME}` names its place.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from registry.json_entry import TOOL_NAME, Entry
from registry.known_keys import Tell
from registry.user_error import UserError
from tools.files import disk

_KEYS = (
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "headers",
    "only",
    "except",
    "paths",
    "instance",
    "timeout_seconds",
)
_MOST_TIMEOUT_S = 86_400
_MOST_SECRET_BYTES = 64 * 1024


class SecretPlace(Struct, frozen=True):
    """Where a value is, that does not stand in tools.json: a file, or a variable of the daemon."""

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


class Mount(Struct, frozen=True):
    """One mounted server, as tools.json describes it: a command for stdio, or a URL."""

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
    # A server process for each caller, instead of one for all.
    is_per_caller: bool = False
    timeout_seconds: float = 120.0

    def wants(self, tool: str) -> bool:
        return (self.only is None or tool in self.only) and tool not in self.without


def read_mount(value: Any, category: str, pointer: str, problem: Tell) -> Mount:
    """The mounted server of a category. `value` is at `pointer` in the file."""
    entry = Entry(value, pointer, problem, _KEYS)
    if not TOOL_NAME.fullmatch(category):
        # It may stand before the names of its tools, and it names the file that keeps them.
        entry.problem("the category of a mount must be letters, digits, _ and -, at most 64")
    command, url = entry.text("command", ""), entry.text("url", "")
    if bool(command) == bool(url):
        entry.problem("a mount needs a command or a url: a program to start, or a server to connect to")
    if url and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
        entry.problem(f"{url!r} is no http or https URL", "url")
    environment = _values(entry, "env")
    entry.check_variables("env", environment)
    instance = entry.text("instance", "shared") or "shared"
    if instance not in ("shared", "caller"):
        entry.problem(f"must be shared or caller, not {instance!r}", "instance")
    return Mount(
        category=category,
        command=command,
        args=entry.texts("args"),
        env=environment,
        cwd=entry.text("cwd", ""),
        url=url,
        headers=_values(entry, "headers"),
        only=entry.texts("only") if "only" in entry.values else None,
        without=entry.texts("except"),
        paths=entry.texts("paths"),
        is_per_caller=instance == "caller",
        timeout_seconds=entry.seconds("timeout_seconds", 120.0, _MOST_TIMEOUT_S),
    )


def _values(mount: Entry, key: str) -> Values:
    given = mount.values.get(key, {})
    if not isinstance(given, dict):
        mount.problem("must be an object of texts", key)
        return MappingProxyType({})
    values: dict[str, str | SecretPlace] = {}
    for name, value in given.items():
        if isinstance(value, str) and "\0" not in value:
            values[name] = value
            continue
        places = value if isinstance(value, dict) else {}
        if len(places) == 1 and isinstance(places.get("file", places.get("variable")), str):
            values[name] = SecretPlace(**places)
        else:
            mount.problem('must be a text, {"file": PATH} or {"variable": NAME}', f"{key}/{name}")
    return MappingProxyType(values)
