"""Stores results that are too large for a message: bytes in files, metadata in SQLite.

A file is complete before its row is written, so a row never points to half a result, even if the process dies. A
file without a row is removed at the next start. After a power cut a file may be shorter than its row says; then it
counts as missing. Every artifact has one owner, and for everybody else it does not exist.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_agent.logs import event
from tools.files import disk
from tools.kit.errors import IoError, NotFound
from tools.kit.records import record

if TYPE_CHECKING:
    import sqlite3

log = logging.getLogger(__name__)

SCHEME = "ax://"
_REFERENCE = re.compile(r"ax://([a-z0-9_-]{1,40})/([0-9a-f]{20}(?:-[a-z0-9][a-z0-9_-]{0,39})?)")
_COPY_BYTES = 1024 * 1024
_SCHEMA = """
create table if not exists artifacts (
    id text primary key, domain text not null, owner text not null, media_type text not null,
    size integer not null, created real not null
);
create index if not exists by_owner on artifacts (owner, created);
"""


@record
class Quotas:
    total_bytes: int = 1_000_000_000
    caller_bytes: int = 100_000_000
    age_s: float = 7 * 24 * 3600.0

    @property
    def large_bytes(self) -> int:
        """From this size on an artifact is large: it makes room for itself among the large ones alone."""
        return self.caller_bytes // 20

    @property
    def share_bytes(self) -> int:
        """What the large artifacts of a caller may take while others need room."""
        return self.caller_bytes // 2


@record
class Artifact:
    """The metadata of one artifact."""

    id: str
    domain: str
    owner: str
    media_type: str
    size: int
    created: float

    @property
    def reference(self) -> str:
        return f"{SCHEME}{self.domain}/{self.id}"


class ArtifactStore:
    """All artifacts of a state folder. May be used from any thread, and by several processes at once."""

    def __init__(self, folder: Path, quotas: Quotas | None = None, id_suffix: str = "") -> None:
        """`id_suffix` is behind every id that it gives: the name of the box, in a fleet."""
        self._folder = folder
        self._id_suffix = id_suffix
        self._quotas = quotas or Quotas()
        self._connection: sqlite3.Connection | None = None
        # The index that the connection has open, by device and inode.
        self._opened: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def of(self, owner: str) -> CallerArtifacts:
        return CallerArtifacts(self, owner)

    def keep(self, owner: str, domain: str, parts: Iterable[bytes], media_type: str) -> Artifact:
        """Store the bytes. Raises OSError if that fails; then nothing is left on disk."""
        artifact_id = f"{secrets.token_hex(10)}{self._id_suffix}"
        path = self._path(artifact_id)
        disk.private_folder(path.parent)
        size = 0
        with disk.replacing(path) as descriptor:
            for part in parts:
                size += len(part)
                self._check_size(size)
                disk.write_all(descriptor, part)
        return self._register(Artifact(artifact_id, domain, owner, media_type, size, time.time()))

    def keep_file(self, owner: str, domain: str, file: Path, media_type: str) -> Artifact:
        """Store a file that is complete, as a hard link to it. Raises OSError as `keep` does.

        The file becomes read-only, because its old name leads to the artifact too. If a hard link is not possible,
        the file is copied.
        """
        artifact_id = f"{secrets.token_hex(10)}{self._id_suffix}"
        path = self._path(artifact_id)
        disk.private_folder(path.parent)
        size = file.stat().st_size
        self._check_size(size)
        try:
            os.link(file, path)
        except OSError:
            with open(disk.open_regular(file), "rb") as opened:
                return self.keep(owner, domain, iter(lambda: opened.read(_COPY_BYTES), b""), media_type)
        path.chmod(0o400)
        return self._register(Artifact(artifact_id, domain, owner, media_type, size, time.time()))

    def find(self, reference: str, owner: str | None = None) -> Artifact | None:
        """The artifact of a reference; with `owner`, only if it belongs to that owner."""
        match = _REFERENCE.fullmatch(reference)
        if match is None or not self._exists():
            return None
        condition, values = "domain = ? and id = ?", [match[1], match[2]]
        if owner is not None:
            condition, values = condition + " and owner = ?", [*values, owner]
        rows = self._query(f"where {condition}", values)
        if not rows or rows[0].created < time.time() - self._quotas.age_s:
            return None
        return rows[0] if self._is_whole(rows[0]) else None

    def path(self, artifact: Artifact) -> Path:
        return self._path(artifact.id)

    def newest(self, owner: str | None = None, limit: int = 1_000) -> list[Artifact]:
        """The newest artifacts first, of one owner or of all."""
        if not self._exists():
            return []
        condition = "" if owner is None else "where owner = ?"
        return self._query(f"{condition} order by created desc limit {limit}", [] if owner is None else [owner])

    def remove(self, artifact: Artifact) -> None:
        """Delete the row first: a file without a row is cleaned up later, but a row without a file would be wrong."""
        with self._transaction() as connection:
            connection.execute("delete from artifacts where id = ?", [artifact.id])
        self._path(artifact.id).unlink(missing_ok=True)

    def prune(self, newest: Artifact) -> None:
        """Remove artifacts that are too old, then the oldest while the owner or the store is over its quota.

        A large one makes room among the large ones. For a small one these go first, down to their share.
        """
        for artifact in self._query("where created < ?", [time.time() - self._quotas.age_s]):
            self.remove(artifact)
        quotas, owner = self._quotas, newest.owner
        over = self._sum("where owner = ?", [owner]) - quotas.caller_bytes
        if over > 0:
            large = "where owner = ? and size >= ?"
            limit = self._sum(large, [owner, quotas.large_bytes]) - over
            if newest.size < quotas.large_bytes:
                limit = max(limit, quotas.share_bytes)
            self._remove_oldest(large, [owner, quotas.large_bytes], limit)
            self._remove_oldest("where owner = ?", [owner], quotas.caller_bytes)
        self._remove_oldest("", [], quotas.total_bytes)

    def _remove_oldest(self, condition: str, values: Sequence[str | int], limit: int) -> None:
        used = self._sum(condition, values)
        if used <= limit:
            return
        for artifact in self._query(f"{condition} order by created", values):
            self.remove(artifact)
            used -= artifact.size
            if used <= limit:
                return

    def _sum(self, condition: str, values: Sequence[str | int]) -> int:
        with self._transaction() as connection:
            used: int = connection.execute(
                f"select coalesce(sum(size), 0) from artifacts {condition}", values
            ).fetchone()[0]
        return used

    def used_bytes(self) -> int:
        """The size of all artifacts. Raises OSError if the index cannot be read."""
        return self._sum("", []) if self._exists() else 0

    def recover(self) -> int:
        """Remove what a dead process or a power cut left half written. Returns the number of removed files.

        A damaged index is put aside. If the store cannot be used for another reason, it is left as it is.
        """
        try:
            return self._recover() if self._exists() else 0
        except OSError as error:
            event(log, logging.WARNING, "artifacts.not_recovered", path=str(self._folder), message=str(error))
            if _is_damage(error):
                self.close()
                for path in self._folder.glob("index.sqlite*"):
                    path.replace(path.with_name(f"damaged-{path.name}"))
            return 0

    def _recover(self) -> int:
        known = set()
        for artifact in self._query("", []):
            if self._is_whole(artifact):
                known.add(artifact.id)
            else:
                self.remove(artifact)
        removed = 0
        # Another process may be about to write the row of a file from the last minute.
        recent = time.time() - 60.0
        for path in self._folder.glob("??/*"):
            if path.stem not in known or path.suffix:
                with suppress(OSError):
                    if path.stat().st_mtime < recent:
                        path.unlink()
                        removed += 1
        return removed

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _check_size(self, size: int) -> None:
        if size > self._quotas.caller_bytes:
            raise OSError(errno.EFBIG, f"it is larger than the {self._quotas.caller_bytes} bytes of a caller")

    def _check_room(self, artifact: Artifact) -> None:
        """Raise OSError if a large artifact fits only in the place of smaller ones."""
        if artifact.size < self._quotas.large_bytes:
            return
        smaller = self._sum("where owner = ? and size < ?", [artifact.owner, self._quotas.large_bytes])
        if smaller + artifact.size > self._quotas.caller_bytes:
            room = self._quotas.caller_bytes - smaller
            raise OSError(errno.EFBIG, f"it is larger than the {room} bytes that the caller's other artifacts leave")

    def _is_whole(self, artifact: Artifact) -> bool:
        try:
            return self._path(artifact.id).stat().st_size == artifact.size
        except OSError:
            return False

    def _exists(self) -> bool:
        return (self._folder / "index.sqlite").exists()

    def _path(self, artifact_id: str) -> Path:
        return self._folder / artifact_id[:2] / artifact_id

    def _register(self, artifact: Artifact) -> Artifact:
        """Write the row of a file that is there, and make room for it."""
        try:
            self._check_room(artifact)
            with self._transaction() as connection:
                connection.execute("insert into artifacts values (?, ?, ?, ?, ?, ?)", astuple(artifact))
        except BaseException:
            self._path(artifact.id).unlink(missing_ok=True)
            raise
        self.prune(artifact)
        return artifact

    def _query(self, rest: str, values: Sequence[str | float]) -> list[Artifact]:
        with self._transaction() as connection:
            rows = connection.execute(
                f"select id, domain, owner, media_type, size, created from artifacts {rest}", values
            ).fetchall()
        return [Artifact(*row) for row in rows]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread at a time; commits at the end. Raises OSError for any error of the index."""
        import sqlite3

        with self._lock:
            try:
                with self._open() as connection:
                    yield connection
            except sqlite3.Error as error:
                raise OSError(errno.EIO, f"the index of artifacts cannot be used: {error}") from error

    def _open(self) -> sqlite3.Connection:
        index = self._folder / "index.sqlite"
        if self._connection is not None and _identity(index) != self._opened:
            # The file was deleted or replaced. Rows in the old one would be lost with this process.
            self._connection.close()
            self._connection = None
        if self._connection is None:
            import sqlite3

            disk.private_folder(self._folder)
            connection = sqlite3.connect(index, timeout=5.0, check_same_thread=False)
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = normal")
            connection.executescript(_SCHEMA)
            self._connection, self._opened = connection, _identity(index)
        return self._connection


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_damage(error: OSError) -> bool:
    """Whether it is the index that is damaged, and not the disk that refuses to be read or written."""
    import sqlite3

    code = getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@record
class CallerArtifacts:
    """The store for one caller. Tools receive this."""

    store: ArtifactStore
    owner: str

    def keep(self, domain: str, parts: Iterable[bytes], *, media_type: str = "text/plain") -> str:
        return self.store.keep(self.owner, domain, parts, media_type).reference

    def keep_file(self, domain: str, path: Path, *, media_type: str = "text/plain") -> str:
        return self.store.keep_file(self.owner, domain, path, media_type).reference

    def path_of(self, reference: str) -> Path:
        try:
            artifact = self.store.find(reference, self.owner)
        except OSError as error:
            raise IoError(f"the artifacts cannot be read now: {(error.strerror or str(error)).lower()}") from error
        if artifact is None:
            raise NotFound(
                f"there is no artifact {reference[:200]} of yours",
                hint="artifacts are let go after some days; make the call again that gave this reference",
            )
        return self.store.path(artifact)
