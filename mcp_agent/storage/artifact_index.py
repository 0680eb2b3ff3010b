"""The index of the artifact store: one row for each artifact, in SQLite."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import astuple

from tools.files import disk

if TYPE_CHECKING:
    import sqlite3

SCHEME = "ax://"
_NAME = "index.sqlite"
_SCHEMA = """
create table if not exists artifacts (
    id text primary key, domain text not null, owner text not null, media_type text not null,
    size integer not null, created real not null
);
create index if not exists by_owner on artifacts (owner, created);
create index if not exists by_age on artifacts (domain, created);
create index if not exists by_size on artifacts (domain, owner, size);
"""
_COLUMNS = "id, domain, owner, media_type, size, created"


class Artifact(Struct, frozen=True):
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


class Rows:
    """The rows, within a transaction. A condition is what SQL has behind `where`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def select(
        self, condition: str = "true", values: Sequence[str | float] = (), *, order: str = "created"
    ) -> list[Artifact]:
        query = f"select {_COLUMNS} from artifacts where {condition} order by {order}"
        return [Artifact(*row) for row in self._connection.execute(query, values).fetchall()]

    def total_bytes(self, condition: str, values: Sequence[str | float] = ()) -> int:
        query = f"select coalesce(sum(size), 0) from artifacts where {condition}"
        found: int = self._connection.execute(query, values).fetchone()[0]
        return found

    def insert(self, artifact: Artifact) -> None:
        self._connection.execute("insert or replace into artifacts values (?, ?, ?, ?, ?, ?)", astuple(artifact))

    def set_created(self, artifact_id: str, created: float) -> bool:
        """Whether there is such an artifact; it counts as created then."""
        changed = self._connection.execute("update artifacts set created = ? where id = ?", [created, artifact_id])
        return changed.rowcount > 0

    def delete(self, artifacts: Iterable[Artifact]) -> None:
        self._connection.executemany("delete from artifacts where id = ?", [(each.id,) for each in artifacts])

    def delete_oldest(self, condition: str, values: Sequence[str | float], limit: int) -> list[Artifact]:
        """Delete rows until those that meet the condition have at most `limit` bytes. Returns what was deleted."""
        over = self.total_bytes(condition, values) - limit
        deleted: list[Artifact] = []
        if over > 0:
            for artifact in self.select(condition, values):
                deleted.append(artifact)
                over -= artifact.size
                if over <= 0:
                    break
            self.delete(deleted)
        return deleted


class ArtifactIndex:
    """The index file in a folder. May be used from any thread, and by several processes at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connection: sqlite3.Connection | None = None
        # The file that the connection has open, by device and inode.
        self._opened: tuple[int, int] | None = None
        self._lock = threading.Lock()

    @property
    def exists(self) -> bool:
        return (self._folder / _NAME).exists()

    @contextmanager
    def transaction(self) -> Iterator[Rows]:
        """The rows, for one thread at a time; commits at the end. Raises OSError for any error of the index."""
        import sqlite3

        with self._lock:
            try:
                with self._open() as connection:
                    yield Rows(connection)
            except sqlite3.Error as error:
                raise OSError(errno.EIO, f"the index of artifacts cannot be used: {error}") from error

    def put_aside(self) -> None:
        """Rename a damaged index, so that the next transaction makes a new one."""
        self.close()
        for path in self._folder.glob(f"{_NAME}*"):
            path.replace(path.with_name(f"damaged-{path.name}"))

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __del__(self) -> None:
        """For a command that ends with its store open: Python 3.13 warns of such a connection."""
        self.close()

    def _open(self) -> sqlite3.Connection:
        index = self._folder / _NAME
        if self._connection is not None and _identity(index) != self._opened:
            # The file was deleted or replaced. Rows in the old one would be lost with this process.
            self._connection.close()
            self._connection = None
        if self._connection is None:
            import sqlite3

            disk.private_folder(self._folder)
            # SQLite gives its other files the mode of this one.
            os.close(os.open(index, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            for path in self._folder.glob(f"{_NAME}*"):
                # Another connection that closes removes its log.
                with suppress(FileNotFoundError):
                    path.chmod(0o600)
            connection = sqlite3.connect(index, timeout=5.0, check_same_thread=False)
            try:
                connection.execute("pragma journal_mode = wal")
                connection.execute("pragma synchronous = normal")
                connection.executescript(_SCHEMA)
            except BaseException:
                connection.close()
                raise
            self._connection, self._opened = connection, _identity(index)
        return self._connection


def is_damage(error: OSError) -> bool:
    """Whether the index is damaged. Otherwise the disk cannot be read or written."""
    import sqlite3

    code = getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
