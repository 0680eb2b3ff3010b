"""What outlives a restart of the daemon: of each MCP session, who its client is and how it is spoken to.

The id of a session is kept as a hash: the file helps nobody to a session. The newest sessions are kept, and those
whose client has ended them are not.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from pathlib import Path

import msgspec
from msgspec import Struct

from mcp_agent.process.logs import event
from mcp_agent.protocol.conversation import LOG_LEVELS, Conversation
from mcp_agent.protocol.eras import HANDSHAKE_VERSIONS
from tools.files import disk

log = logging.getLogger(__name__)

MOST_RECORDS = 500
_MOST_FILE_BYTES = 1_000_000
_LEVELS = (None, *LOG_LEVELS)


class SessionRecord(Struct, frozen=True):
    """The token that a session belongs to, by its id, and what its client said of itself."""

    owner: str
    client: str
    client_version: str
    version: str
    log_level: str | None
    root: str = ""

    @classmethod
    def of(cls, owner: str, conversation: Conversation) -> SessionRecord:
        return cls(
            owner,
            conversation.client,
            conversation.client_version,
            conversation.version,
            conversation.log_level,
            conversation.root,
        )

    def conversation(self) -> Conversation:
        return Conversation(self.version, self.client, self.client_version, self.log_level, root=self.root)


class SessionRecords:
    """The records in one file, least recently changed first. Without a path they last as long as the process."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._records: OrderedDict[str, SessionRecord] | None = None
        self._writing: asyncio.Future[None] | None = None
        self._is_changed = False

    def find(self, session_id: str) -> SessionRecord | None:
        return self._read().get(_key(session_id))

    def keep(self, session_id: str, kept: SessionRecord) -> None:
        records, key = self._read(), _key(session_id)
        if records.get(key) == kept:
            return
        records[key] = kept
        records.move_to_end(key)
        while len(records) > MOST_RECORDS:
            records.popitem(last=False)
        self._save()

    def drop(self, session_id: str) -> None:
        if self._read().pop(_key(session_id), None) is not None:
            self._save()

    def _read(self) -> OrderedDict[str, SessionRecord]:
        if self._records is None:
            self._records = OrderedDict() if self._path is None else _from_file(self._path)
        return self._records

    def _save(self) -> None:
        """Write the file in a thread, once more if something changes in the meantime."""
        self._is_changed = True
        if self._path is not None and self._writing is None:
            self._is_changed = False
            data = msgspec.json.encode(dict(self._read()))
            self._writing = asyncio.get_running_loop().run_in_executor(None, _write, self._path, data)
            self._writing.add_done_callback(self._on_written)

    def _on_written(self, written: asyncio.Future[None]) -> None:
        self._writing = None
        if not written.cancelled() and self._is_changed:
            self._save()


def _key(session_id: str) -> str:
    return hashlib.sha256(session_id.encode()).hexdigest()[:32]


def _from_file(path: Path) -> OrderedDict[str, SessionRecord]:
    """The records in a file that may be missing, or not be ours: then clients are asked to say again who they are."""
    try:
        records = msgspec.json.decode(disk.read_small_file(path, _MOST_FILE_BYTES), type=dict[str, SessionRecord])
        if not all(each.version in HANDSHAKE_VERSIONS and each.log_level in _LEVELS for each in records.values()):
            raise ValueError("a record that is none of ours")
    except FileNotFoundError:
        return OrderedDict()
    except (OSError, ValueError) as error:
        event(log, logging.WARNING, "mcp_sessions.unreadable", path=str(path), message=str(error))
        return OrderedDict()
    return OrderedDict(records)


def _write(path: Path, data: bytes) -> None:
    try:
        disk.replace_file(path, data, sync=False)
    except OSError as error:
        event(log, logging.WARNING, "mcp_sessions.unwritten", path=str(path), message=str(error))
