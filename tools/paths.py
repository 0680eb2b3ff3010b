"""Paths as callers write them, made absolute and canonical. Nothing is confined here."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from tools.errors import InvalidPath
from tools.mounts import LocalMounts


@dataclass(frozen=True, slots=True)
class OpenPaths:
    """Every path of the machine, relative ones counted from `working_directory`."""

    working_directory: Path
    mounts: LocalMounts = field(default_factory=LocalMounts)

    def resolve(self, path: str) -> Path:
        if not path:
            raise InvalidPath("the path is empty", hint="pass '.' for the working directory")
        if "\0" in path:
            raise InvalidPath(f"{path[:80]!r} has a NUL character in it, which no file name can have")
        expanded = os.path.expanduser(path)  # noqa: PTH111 - Path.expanduser raises where there is no such user
        # As text until it is done: each Path on the way would cost more than reading a small file.
        return Path(os.path.normpath(os.path.join(self.working_directory, expanded)))  # noqa: PTH118

    def is_local(self, path: Path) -> bool:
        return self.mounts.holds(path)


def told(path: Path | str) -> str:
    """A path as text for the wire: bytes of a name that are not UTF-8 become escapes that `resolve` does not read."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
