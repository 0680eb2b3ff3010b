"""One line for every call, for the owner to look back on: who, what, with what came of it. Never what was in a file.

JSON lines in a file that only its owner can read. A line is one write of its own, so a process that dies loses none
and several processes can share the file. Of arguments the shape is kept: numbers and switches as they are, and the
text of those that say where; any other text is only counted. Of a command its first word is kept, the program. There
is no digest of arguments either: a short secret can be found by trying.

What is no call has an `event`: a start of the daemon, a change of what callers may do, a request that was turned away.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from mcp_agent.calls.call import Call, Outcome
from mcp_agent.logs import event
from registry.catalog import Catalog
from registry.policy_diff import differences
from registry.profiles import Profiles
from tools.files import disk

log = logging.getLogger(__name__)

FILE_NAME = "audit.jsonl"
_MOST_BYTES = 50 * 1024 * 1024
_KEPT_FILES = 5
_LOOK_EVERY = 500
_LINE = orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE
_PLACES = frozenset(
    (
        "path",
        "file_path",
        "from",
        "to",
        "base",
        "cwd",
        "glob",
        "ref",
        "session_id",
        "mode",
        "type",
        "sort",
        "signal",
        "if_rev",
    )
)
_PLACE_CHARS = 300
# The first word of a command, unless it sets a variable: a value of one may be a secret.
_PROGRAM = re.compile(r"\s*([\w./+-]{1,60})(?=\s|$)")
_MOST_ARGUMENTS = 20


class Audit:
    """The audit file of a state folder. A disk that is full costs lines, which the log says, and no call."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._descriptor = -1
        self._boot = secrets.token_hex(4)
        self._seq = 0
        self._is_failing = False
        self.lost_lines = 0

    def record(self, call: Call, outcome: Outcome | None, took_s: float, result_bytes: int) -> None:
        """Write the line of a call; `outcome` is None if it was called off."""
        caller = call.caller
        self._seq += 1
        facts: dict[str, Any] = {
            "ts": datetime.now(UTC),
            "seq": self._seq,
            "boot": self._boot,
            "req": call.id,
            "client": caller.name,
            "program": caller.client[:200],
            "transport": caller.transport,
            "tool": call.tool[:100],
            "args": shape(call.arguments),
            "outcome": "CANCELLED" if outcome is None else outcome.code,
            "ms": int(took_s * 100_000) / 100,
            "bytes": result_bytes,
        }
        if outcome is not None:
            if outcome.whole_bytes is not None:
                facts["whole_bytes"] = outcome.whole_bytes
            if outcome.error is not None:
                if outcome.error.rule is not None:
                    facts["rule"] = outcome.error.rule
            elif (exit_code := getattr(outcome.result, "exit_code", None)) is not None:
                facts["exit"] = exit_code
        self._write(facts)

    def note(self, event: str, **facts: Any) -> None:
        """Write the line of something that is no call."""
        self._seq += 1
        self._write({"ts": datetime.now(UTC), "seq": self._seq, "boot": self._boot, "event": event, **facts})

    def _write(self, facts: dict[str, Any]) -> None:
        try:
            line = orjson.dumps(facts, option=_LINE)
        except TypeError:
            # Half a surrogate pair, as Python has it for a byte of a file name that is not UTF-8.
            line = json.dumps(facts, default=datetime.isoformat, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        try:
            if self._descriptor < 0 or self._seq % _LOOK_EVERY == 0:
                self._reopen()
            os.write(self._descriptor, line)
            self._is_failing = False
        except OSError as error:
            self.lost_lines += 1
            if not self._is_failing:
                event(log, logging.ERROR, "audit.failed", path=str(self._path), message=str(error))
            self._is_failing = True

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _reopen(self) -> None:
        """Open the file that has the name now, after moving a full one out of the way."""
        self.close()
        disk.private_folder(self._path.parent)
        try:
            if self._path.stat().st_size >= _MOST_BYTES:
                for number in range(_KEPT_FILES - 1, 0, -1):
                    older = self._rotated_path(number)
                    if older.exists():
                        older.replace(self._rotated_path(number + 1))
                self._path.replace(self._rotated_path(1))
        except FileNotFoundError:
            pass
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        self._descriptor = os.open(self._path, flags, 0o600)

    def _rotated_path(self, number: int) -> Path:
        return self._path.with_name(f"{FILE_NAME}.{number}")


def note_policy(audit: Audit, catalog: Catalog, before: Profiles, after: Profiles, *, by: str) -> None:
    """Put on record what callers may do from now on, and who wanted it so: a command, the API, or the file itself."""
    changes = differences(before, after, catalog)
    audit.note("policy", by=by, changes=changes, old=before.digest, new=after.digest)


def shape(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What arguments look like, without what they say."""
    shaped = {key[:60]: _shape(key, value) for key, value in islice(arguments.items(), _MOST_ARGUMENTS)}
    if len(arguments) > _MOST_ARGUMENTS:
        shaped["…"] = len(arguments) - _MOST_ARGUMENTS
    return shaped


def _shape(key: str, value: Any) -> Any:
    if isinstance(value, str):
        if key in _PLACES:
            return value[:_PLACE_CHARS]
        if key != "command" or (program := _PROGRAM.match(value)) is None:
            return f"<{len(value)} chars>"
        return f"{program[1]} … <{len(value)} chars>"
    if isinstance(value, list):
        return f"<{len(value)} items>"
    if isinstance(value, dict):
        return f"<{len(value)} keys>"
    return value
