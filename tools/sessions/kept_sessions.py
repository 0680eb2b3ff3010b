"""What the next daemon of a state folder learns of sessions: a small file beside the spool of each.

With it a session stays readable after a restart, and the conversation that it belonged to is told. Conversations are
named by hashes: the id of a connection or of a chat helps nobody who reads the file.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from tools.files import disk
from tools.sessions.origin import EndedBy

_SUFFIX = ".session"
_MOST_COMMAND_CHARS = 4_096


class KeptSession(Struct, frozen=True):
    """A session and how it ended. Where `ended_at` is None, its daemon was killed, and nobody knows."""

    id: str
    command: str
    cwd: str
    pid: int
    started_at: float
    token: str
    conversations: tuple[str, ...]
    ended_at: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    ended_by: EndedBy | None = None
    # Whether its conversation knows how it ended.
    is_told: bool = False

    def write(self, folder: Path) -> None:
        """Raises OSError."""
        kept = msgspec.structs.replace(self, command=self.command[:_MOST_COMMAND_CHARS])
        disk.replace_file(folder / f"{self.id}{_SUFFIX}", msgspec.json.encode(kept), sync=False)


def read(folder: Path) -> Iterator[KeptSession]:
    """Those whose files are in a folder. What is none of ours is passed over."""
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        with contextlib.suppress(OSError, ValueError):
            found = msgspec.json.decode(disk.read_small_file(path), type=KeptSession)
            if found.id == path.stem and "/" not in found.id:
                yield found


def remove(folder: Path, session_id: str) -> None:
    """Forget a session; with the last one of a daemon that is gone, its folder goes."""
    with contextlib.suppress(OSError):
        (folder / f"{session_id}{_SUFFIX}").unlink()


def are_in(folder: Path) -> bool:
    return any(folder.glob(f"*{_SUFFIX}"))


def hashed(conversations: Iterable[str]) -> tuple[str, ...]:
    """The names of a conversation as they are kept."""
    return tuple(hashlib.sha256(each.encode("utf-8", "surrogatepass")).hexdigest()[:32] for each in conversations)
