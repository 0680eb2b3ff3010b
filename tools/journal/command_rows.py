"""What a command did to each path, as the journal keeps it: `rows.json` and the old contents in the image of its entry.

The helper process writes it, and imports nothing else of the journal.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROWS, CONTENT = "rows.json", "content"


class FileState(NamedTuple):
    """What an undo puts back beside the content."""

    mode: int
    uid: int
    gid: int
    links: int
    size: int
    mtime: int
    inode: int

    @property
    def kind(self) -> int:
        return stat.S_IFMT(self.mode)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)


class CommandRow(NamedTuple):
    """One path, relative to the project; the project itself is the empty path.

    The old content is at an offset of the file `content`, or a `file` of its own beside it. Neither: a folder, a pipe,
    or what was moved: then it is where another row has its inode.
    """

    path: str
    before: FileState | None
    after: FileState | None
    at: int = -1
    # How many bytes of extended attributes follow the content, as JSON.
    attribute_bytes: int = 0
    file: str = ""
    # The content was not changed: mode, owner or times were.
    is_same: bool = False
    # A folder that was not looked into.
    is_opaque: bool = False
    # Of an index of git: what it says since the command, whatever times are in it.
    digest: str = ""
    # Other names of a file with several, as far as the command did not touch them.
    names: Sequence[str] = ()

    @property
    def has_content(self) -> bool:
        return self.at >= 0 or bool(self.file)


class CommandRows(NamedTuple):
    """All that an undo needs to know of one command."""

    root: str
    rows: list[CommandRow]
    # Paths that another command may have changed.
    shared: frozenset[str] = frozenset()


def state_of(status: os.stat_result) -> FileState:
    is_folder = stat.S_ISDIR(status.st_mode)
    return FileState(
        status.st_mode,
        status.st_uid,
        status.st_gid,
        0 if is_folder else status.st_nlink,
        0 if is_folder else status.st_size,
        status.st_mtime_ns,
        status.st_ino,
    )


def write_rows(folder: Path | str, found: CommandRows) -> None:
    text = json.dumps({"root": found.root, "shared": sorted(found.shared), "rows": found.rows})
    temporary = f"{folder}/{ROWS}.new"
    with open(temporary, "w", opener=lambda path, flags: os.open(path, flags | os.O_CLOEXEC, 0o600)) as file:
        file.write(text)
    os.replace(temporary, f"{folder}/{ROWS}")


def read_rows(folder: Path | str) -> CommandRows:
    """Raises OSError, and ValueError for a file that another version or a broken disk has written."""
    with open(f"{folder}/{ROWS}") as file:
        found = json.load(file)
    try:
        rows = [_row(*values) for values in found["rows"]]
        return CommandRows(found["root"], rows, frozenset(found["shared"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder}/{ROWS}: {error}") from error


def _row(path: str, before: list[int] | None, after: list[int] | None, *rest: object) -> CommandRow:
    states = (None if each is None else FileState(*each) for each in (before, after))
    return CommandRow(path, *states, *rest)  # type: ignore[arg-type] # of JSON; what does not fit is found when it is used
