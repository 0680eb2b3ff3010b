"""What is remembered of each conversation: the folder that its relative paths begin in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

from mcp_agent.calls.call import Call
from tools.files.paths import OpenPaths, to_wire

_MOST_FOLDERS = 1_000


class _Folder(NamedTuple):
    """The folder that a client has named; `path` is None where it does not exist on this machine."""

    named: str
    path: Path | None


class Conversations:
    """Of the newest conversations. `begin` is asked at the beginning of every call."""

    def __init__(self, paths: OpenPaths) -> None:
        self._paths = paths
        self._folders: dict[str, _Folder] = {}

    async def begin(self, call: Call) -> tuple[OpenPaths, list[str]]:
        """The paths of a call, and what its result says first: which folder counts, where the client has named another
        than the daemon's.

        A result says it once, and again after a change.
        """
        caller = call.caller
        if not caller.folder or not caller.is_on_mcp:
            return self._paths, []
        name = caller.origin.names[0]
        known = self._folders.get(name)
        news = []
        if known is None or known.named != caller.folder:
            # In a thread: a disk of the network may not answer.
            path = await asyncio.to_thread(_folder, caller.folder)
            before = self._folders.pop(name, None)
            known = self._folders[name] = _Folder(caller.folder, path)
            while len(self._folders) > _MOST_FOLDERS:
                del self._folders[next(iter(self._folders))]
            own = self._paths.working_directory
            if before is not None or path != own:
                missing = "" if path else f", as {to_wire(caller.folder)[:200]} is not on this machine"
                news.append(f"relative paths begin in {to_wire(path or own)}{missing}")
        return self._paths if known.path is None else self._paths.starting_in(known.path), news


def _folder(named: str) -> Path | None:
    path = Path(named)
    try:
        return path if path.is_absolute() and path.is_dir() else None
    except (OSError, ValueError):
        return None
