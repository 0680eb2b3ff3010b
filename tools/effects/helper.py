"""The helper process: it knows the files of the projects in use, and says what a command has changed in them.

One message of its socket is one JSON object. It answers `open`, `settle` and `end`, and reads contents while nobody
asks. It ends with its socket. It is started by its path, so that `tools` of the current project is not imported.
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.effects.followed_project import FollowedProject
from tools.effects.project_tree import NotFollowed

MOST_MESSAGE_BYTES = 200_000
CACHE_BYTES = 1 << 30
MOST_PROJECTS = 8
# So long it is at work before it looks for a message.
_SLICE_S = 0.005
_SAY_EVERY_S = 0.05
# At work on an answer, it says so.
_AT_WORK_EVERY_S = 0.02
# So long a command may wait for what is read before it.
_MOST_READ_S = 0.04


class _Open:
    """A project in use. `asked` is the message that waits for the first look."""

    def __init__(self, project: FollowedProject, asked: dict[str, Any]) -> None:
        self.project = project
        self.asked: dict[str, Any] | None = asked
        # Whether contents are to be read, and whether the daemon was told that they are.
        self.is_behind = True
        self.used_at = time.monotonic()
        self.said_at = 0.0


class Helper:
    def __init__(self, channel: socket.socket, folder: str) -> None:
        self._channel = channel
        self._folder = folder
        self._open: dict[int, _Open] = {}
        # When it has last said something to who waits for an answer; 0 while nobody waits.
        self._said_at = 0.0

    def run(self) -> None:
        """Until the daemon closes its end."""
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        while True:
            has_work = any(each.asked is not None or each.is_behind for each in self._open.values())
            if poll.poll(0 if has_work else None):
                data = self._channel.recv(MOST_MESSAGE_BYTES)
                if not data:
                    return
                self._answer(json.loads(data))
            elif has_work:
                self._work()

    def _answer(self, message: dict[str, Any]) -> None:
        self._said_at = time.monotonic()
        try:
            answer = getattr(self, f"_{message['do']}")(message)
        except (NotFollowed, OSError) as error:
            why = str(error) if isinstance(error, NotFollowed) else (error.strerror or str(error)).lower()
            self._close(message)
            answer = {"problem": why}
        except Exception as error:  # A boundary: the daemon says what has failed, and goes on without this project.
            self._close(message)
            answer = {"problem": f"{type(error).__name__}: {error}"[:200]}
        self._said_at = 0.0
        if answer is not None:
            self._send({"n": message["n"], "project": message["project"], **answer})

    def _begin(self, message: dict[str, Any]) -> None:
        """Open a project. The answer comes after the first look."""
        while len(self._open) >= MOST_PROJECTS:
            self._drop_oldest()
        project = FollowedProject(
            message["root"],
            self._folder,
            skipped=message["skipped"],
            is_denied=_denial_test(message["root"], message["denied"]),
            has_room=partial(self._has_room, message["project"]),
            has_watches=message["has_watches"],
            at_work=self._say_at_work,
        )
        self._open[message["project"]] = _Open(project, message)

    def _settle(self, message: dict[str, Any]) -> dict[str, Any]:
        """Before a command: what a person has just written is read, too, as far as there is time."""
        project = self._used(message)
        project.settle(message["running"])
        entry = self._open[message["project"]]
        entry.is_behind = not project.read_on(_MOST_READ_S)
        return {"is_behind": entry.is_behind}

    def _end(self, message: dict[str, Any]) -> dict[str, Any]:
        project = self._used(message)
        project.settle(message["running"])
        answer = project.end(message["command"], message["folder"], message["most_bytes"])
        entry = self._open[message["project"]]
        entry.is_behind = True
        return {**answer, "is_behind": True}

    def _close(self, message: dict[str, Any]) -> None:
        found = self._open.pop(message["project"], None)
        if found is not None:
            found.project.close()

    def _used(self, message: dict[str, Any]) -> FollowedProject:
        found = self._open.get(message["project"])
        if found is None:
            raise NotFollowed("the project is not read any more")
        found.used_at = time.monotonic()
        return found.project

    def _work(self) -> None:
        """A slice of what is to be done, for the project that was used last."""
        key, each = max(
            self._open.items(), key=lambda item: (item[1].asked is not None, item[1].is_behind, item[1].used_at)
        )
        try:
            if each.asked is not None:
                self._look_on(key, each)
            elif each.project.read_on(_SLICE_S):
                each.is_behind = False
                self._send({"project": key, "is_behind": False})
        except (NotFollowed, OSError) as error:
            why = str(error) if isinstance(error, NotFollowed) else (error.strerror or str(error)).lower()
            self._close({"project": key})
            asked = {} if each.asked is None else {"n": each.asked["n"]}
            self._send({"project": key, **asked, "problem": why})

    def _look_on(self, key: int, each: _Open) -> None:
        assert each.asked is not None
        if each.project.tree.look_on(_SLICE_S):
            watches = each.project.tree.watches
            descriptors = [] if watches is None else [watches.descriptor]
            self._send({"n": each.asked["n"], "project": key, "is_ready": True}, descriptors)
            each.asked = None
        elif time.monotonic() - each.said_at > _SAY_EVERY_S:
            each.said_at = time.monotonic()
            self._send({"project": key, "percent": each.project.tree.percent})

    def _say_at_work(self) -> None:
        now = time.monotonic()
        if self._said_at and now - self._said_at > _AT_WORK_EVERY_S:
            self._said_at = now
            self._send({"at_work": True})

    def _has_room(self, key: int, size: int) -> bool:
        """Whether the caches hold so much more for a project, without those that were not used for longest."""
        while sum(each.project.cached_bytes for each in self._open.values()) + size > CACHE_BYTES:
            if not self._drop_oldest(but=key):
                return False
        return True

    def _drop_oldest(self, but: int = -1) -> bool:
        others = [each for each in self._open if each != but]
        if others:
            key = min(others, key=lambda each: self._open[each].used_at)
            self._close({"project": key})
            self._send({"project": key, "problem": ""})
        return bool(others)

    def _send(self, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
        socket.send_fds(self._channel, [json.dumps(message).encode()], descriptors or [])


def _denial_test(root: str, rules: list[list[list[Any]]]) -> Callable[[str], bool]:
    """Whether a path of the project is denied to every caller. Of the globs of a rule the last that fits decides."""
    compiled = [[(re.compile(source, re.DOTALL), denies) for source, denies in globs] for globs in rules]
    prefix = root.lstrip("/")

    def is_denied(path: str) -> bool:
        for globs in compiled:
            fitting = [denies for pattern, denies in globs if pattern.match(f"{prefix}/{path}")]
            if fitting and fitting[-1]:
                return True
        return False

    return is_denied if compiled else lambda path: False


def main() -> None:
    os.umask(0o077)
    channel = socket.socket(fileno=0)
    helper = Helper(channel, sys.argv[1])
    try:
        helper.run()
    except (BrokenPipeError, ConnectionResetError):
        # The daemon is gone.
        return


if __name__ == "__main__":
    main()
