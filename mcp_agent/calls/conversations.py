"""What is remembered of each conversation: the folder that its relative paths begin in, and what it must be told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

from mcp_agent.calls.call import Call
from tools.files.paths import OpenPaths, to_wire
from tools.sessions.manager import SessionManager

_MOST_FOLDERS = 1_000


class _Folder(NamedTuple):
    """The folder that a client has named; `path` is None where it does not exist on this machine."""

    named: str
    path: Path | None


class Conversations:
    """Of the newest conversations. `begin` is asked at the beginning of every call."""

    def __init__(self, paths: OpenPaths, sessions: SessionManager | None) -> None:
        self._paths = paths
        self._sessions = sessions
        self._folders: dict[str, _Folder] = {}

    async def begin(self, call: Call) -> tuple[OpenPaths, list[str]]:
        """The paths of a call, and what its result says first.

        Which folder counts, where the client has named another than the daemon's: once, and again after a change. And
        which of its sessions have ended with an earlier daemon, or run without its knowledge.
        """
        caller = call.caller
        if not caller.is_on_mcp and not caller.folder:
            return self._paths, []
        origin = caller.origin
        news = (
            []
            if self._sessions is None or not caller.is_on_mcp
            else self._sessions.news(origin, str(call.arguments.get("session_id")))
        )
        if not caller.folder:
            return self._paths, news
        name = origin.names[0]
        known = self._folders.get(name)
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
