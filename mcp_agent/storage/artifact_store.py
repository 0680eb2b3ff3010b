"""The one store of bytes that are kept for a while: bytes in files, metadata in an index.

It has results that are too large for a message, by reference (`ax://<domain>/<id>`), and whole texts of which a caller
was given a part, by the `prune_id` that `recover_text` takes. The domain `pruned` has an age and quotas of its own:
such a text makes room among its like, and never pushes out a result.

A file is complete before its row is written, so a row never points to half a result, even if the process dies. A
file without a row is removed at the next start. After a power cut a file may be shorter than its row says; then it
counts as missing. Every artifact has one owner, and for everybody else it does not exist.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from mcp_agent.process.logs import event
from mcp_agent.storage.artifact_index import SCHEME, Artifact, ArtifactIndex, Rows, is_damage
from tools.files import disk
from tools.kit.errors import IoError, NotFound

log = logging.getLogger(__name__)

__all__ = ["PRUNED_QUOTAS", "RESULT_QUOTAS", "SCHEME", "Artifact", "ArtifactStore", "CallerArtifacts", "Quotas"]

_REFERENCE = re.compile(r"ax://([a-z0-9_-]{1,40})/([0-9a-f]{20}(?:-[a-z0-9][a-z0-9_-]{0,39})?)")
_COPY_BYTES = 1024 * 1024
# The domain of texts that were pruned. All others are domains of results.
_PRUNED = "pruned"
_IS_PRUNED = f"domain = '{_PRUNED}'"
_IS_RESULT = f"domain <> '{_PRUNED}'"


class Quotas(Struct, frozen=True):
    """The limits of results, or of pruned texts."""

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


RESULT_QUOTAS = Quotas()
PRUNED_QUOTAS = Quotas(250_000_000, 125_000_000, 3600.0)


class _Share(NamedTuple):
    """Domains that have an age and a part of the disk together, by what SQL has behind `where`."""

    condition: str
    quotas: Quotas


class ArtifactStore:
    """All artifacts of a state folder. May be used from any thread, and by several processes at once."""

    def __init__(
        self, folder: Path, results: Quotas = RESULT_QUOTAS, pruned: Quotas = PRUNED_QUOTAS, id_suffix: str = ""
    ) -> None:
        """`id_suffix` ends every id that the store makes: the name of the box, in a fleet."""
        self._folder = folder
        self._id_suffix = id_suffix
        self._shares = (_Share(_IS_RESULT, results), _Share(_IS_PRUNED, pruned))
        self._index = ArtifactIndex(folder)

    def of(self, owner: str) -> CallerArtifacts:
        return CallerArtifacts(self, owner)

    def keep(self, owner: str, domain: str, parts: Iterable[bytes], media_type: str) -> Artifact:
        """Store a result. Raises OSError if that fails; then nothing is left on disk."""
        return self._write(self._new_id(), owner, domain, parts, media_type)

    def keep_file(self, owner: str, domain: str, file: Path, media_type: str) -> Artifact:
        """Store a file that is complete, as a hard link to it. Raises OSError as `keep` does.

        The file becomes read-only, because its old name leads to the artifact too. If a hard link is not possible,
        the file is copied.
        """
        artifact_id = self._new_id()
        path = self._path(artifact_id)
        disk.private_folder(path.parent)
        size = file.stat().st_size
        self._check_size(size, domain)
        try:
            os.link(file, path)
        except OSError:
            with open(disk.open_regular(file), "rb") as opened:
                return self.keep(owner, domain, iter(lambda: opened.read(_COPY_BYTES), b""), media_type)
        path.chmod(0o400)
        return self._register(Artifact(artifact_id, domain, owner, media_type, size, time.time()))

    def keep_text(self, owner: str, text: str) -> str:
        """Store a text that is about to be pruned, and return its id. Raises OSError.

        The id is a hash of the owner and the text: the same text is stored once, and nobody can guess the id of a text
        that they do not have.
        """
        data = text.encode("utf-8", "surrogatepass")
        prune_id = _prune_id(owner, data) + self._id_suffix
        if self._path(prune_id).exists():
            with self._index.transaction() as rows:
                if rows.set_created(prune_id, time.time()):
                    return prune_id
        # Not synced: a text that a power cut destroys is pruned again.
        self._write(prune_id, owner, _PRUNED, [data], "text/plain", sync=False)
        return prune_id

    def find_text(self, owner: str, prune_id: str) -> str | None:
        """The text that was kept under this id; None if it is unknown, another owner's, or expired."""
        try:
            artifact = self._find(_PRUNED, prune_id, owner)
            data = None if artifact is None else disk.read_small_file(self._path(artifact.id))
        except OSError:
            return None
        if data is None or not prune_id.startswith(_prune_id(owner, data)):
            return None
        return data.decode("utf-8", "surrogatepass")

    def find(self, reference: str, owner: str | None = None) -> Artifact | None:
        """The artifact of a reference; with `owner`, only if it belongs to that owner."""
        match = _REFERENCE.fullmatch(reference)
        if match is None:
            return None
        return self._find(match[1], match[2], owner)

    def path(self, artifact: Artifact) -> Path:
        return self._path(artifact.id)

    def newest(self, owner: str | None = None, limit: int = 1_000) -> list[Artifact]:
        """The newest results first, of one owner or of all."""
        if not self._index.exists:
            return []
        condition, values = (_IS_RESULT, []) if owner is None else (f"{_IS_RESULT} and owner = ?", [owner])
        with self._index.transaction() as rows:
            return rows.select(condition, values, order=f"created desc limit {limit}")

    def used_bytes(self) -> int:
        """The size of all results. Raises OSError if the index cannot be read."""
        if not self._index.exists:
            return 0
        with self._index.transaction() as rows:
            return rows.total_bytes(_IS_RESULT)

    def remove(self, artifact: Artifact) -> None:
        with self._index.transaction() as rows:
            rows.delete([artifact])
        self._unlink([artifact])

    def sweep(self) -> float:
        """Remove what is too old. Returns the seconds after which the next artifact can be too old."""
        next_in_s = min(share.quotas.age_s for share in self._shares)
        try:
            if self._index.exists:
                with self._index.transaction() as rows:
                    expired = self._delete_expired(rows)
                    for share in self._shares:
                        for oldest in rows.select(share.condition, order="created limit 1"):
                            next_in_s = min(next_in_s, oldest.created + share.quotas.age_s - time.time())
                self._unlink(expired)
        except OSError as error:
            event(log, logging.WARNING, "artifacts.not_swept", path=str(self._folder), message=str(error))
        return next_in_s

    def recover(self) -> int:
        """Remove what a dead process or a power cut left half written. Returns the number of removed files.

        A damaged index is put aside. If the store cannot be used for another reason, it is left as it is.
        """
        try:
            return self._recover() if self._index.exists else 0
        except OSError as error:
            event(log, logging.WARNING, "artifacts.not_recovered", path=str(self._folder), message=str(error))
            if is_damage(error):
                self._index.put_aside()
            return 0

    def _recover(self) -> int:
        with self._index.transaction() as rows:
            known = rows.select()
            broken = [artifact for artifact in known if not self._is_whole(artifact)]
            rows.delete(broken)
        self._unlink(broken)
        whole = {artifact.id for artifact in known}.difference(artifact.id for artifact in broken)
        removed = 0
        # Another process may be about to write the row of a file from the last minute.
        recent = time.time() - 60.0
        for path in self._folder.glob("??/*"):
            if path.stem not in whole or path.suffix:
                with suppress(OSError):
                    if path.stat().st_mtime < recent:
                        path.unlink()
                        removed += 1
        return removed

    def close(self) -> None:
        self._index.close()

    def _new_id(self) -> str:
        return f"{secrets.token_hex(10)}{self._id_suffix}"

    def _path(self, artifact_id: str) -> Path:
        return self._folder / artifact_id[:2] / artifact_id

    def _share(self, domain: str) -> _Share:
        results, pruned = self._shares
        return pruned if domain == _PRUNED else results

    def _find(self, domain: str, artifact_id: str, owner: str | None) -> Artifact | None:
        """The one look-up: whatever another owner has is not there, and neither is what is too old or not whole."""
        if not self._index.exists:
            return None
        with self._index.transaction() as rows:
            found = next(iter(rows.select("domain = ? and id = ?", [domain, artifact_id])), None)
        if found is None or (owner is not None and found.owner != owner):
            return None
        if found.created < time.time() - self._share(domain).quotas.age_s:
            return None
        return found if self._is_whole(found) else None

    def _is_whole(self, artifact: Artifact) -> bool:
        try:
            return self._path(artifact.id).stat().st_size == artifact.size
        except OSError:
            return False

    def _write(
        self, artifact_id: str, owner: str, domain: str, parts: Iterable[bytes], media_type: str, *, sync: bool = True
    ) -> Artifact:
        path = self._path(artifact_id)
        disk.private_folder(path.parent)
        size = 0
        with disk.replacing(path, sync=sync) as descriptor:
            for part in parts:
                size += len(part)
                self._check_size(size, domain)
                disk.write_all(descriptor, part)
        return self._register(Artifact(artifact_id, domain, owner, media_type, size, time.time()))

    def _check_size(self, size: int, domain: str) -> None:
        quotas = self._share(domain).quotas
        if size > (most := min(quotas.caller_bytes, quotas.total_bytes)):
            raise OSError(errno.EFBIG, f"it is larger than the {most} bytes of a caller")

    def _register(self, artifact: Artifact) -> Artifact:
        """Write the row of an existing file, and make room for it. Raises OSError; then the file is gone, too."""
        try:
            with self._index.transaction() as rows:
                removed = self._make_room(rows, artifact)
                rows.insert(artifact)
                removed += self._delete_expired(rows)
        except BaseException:
            self._path(artifact.id).unlink(missing_ok=True)
            raise
        self._unlink(removed)
        return artifact

    def _make_room(self, rows: Rows, new: Artifact) -> list[Artifact]:
        """Delete the oldest rows of its kind, so that its owner, and all owners together, stay within the quota.

        A large artifact makes room among the large ones, or is refused with OSError. For a small one the large ones go
        first, down to their share.
        """
        alike, quotas = self._share(new.domain)
        of_owner, owner = f"{alike} and owner = ?", (new.owner,)
        of_large, large = f"{of_owner} and size >= ?", (new.owner, quotas.large_bytes)
        used = rows.total_bytes(of_owner, owner)
        removed: list[Artifact] = []
        if used + new.size > quotas.caller_bytes:
            used_by_large = rows.total_bytes(of_large, large)
            room = quotas.caller_bytes - (used - used_by_large) - new.size
            if new.size < quotas.large_bytes:
                removed += rows.delete_oldest(of_large, large, max(room, quotas.share_bytes))
                removed += rows.delete_oldest(of_owner, owner, quotas.caller_bytes - new.size)
            elif room < 0:
                left = f"it is larger than the {room + new.size} bytes that the caller's other artifacts leave"
                raise OSError(errno.EFBIG, left)
            else:
                removed += rows.delete_oldest(of_large, large, room)
        return removed + rows.delete_oldest(alike, [], quotas.total_bytes - new.size)

    def _delete_expired(self, rows: Rows) -> list[Artifact]:
        now = time.time()
        expired: list[Artifact] = []
        for condition, quotas in self._shares:
            expired += rows.select(f"{condition} and created < ?", [now - quotas.age_s])
        rows.delete(expired)
        return expired

    def _unlink(self, removed: Iterable[Artifact]) -> None:
        """Delete the files of deleted rows. In this order a row never leads to a file that is not there."""
        for artifact in removed:
            self._path(artifact.id).unlink(missing_ok=True)


def _prune_id(owner: str, data: bytes) -> str:
    owner_hash = hashlib.sha256(owner.encode()).hexdigest().encode()
    return "prn_" + base64.b32encode(hashlib.sha256(owner_hash + b"\n" + data).digest()[:10]).decode().lower()


class CallerArtifacts(Struct, frozen=True):
    """The store for one caller. Tools receive this."""

    store: ArtifactStore
    owner: str
    # Of a domain: whether the caller may read what is kept under it.
    opens: Callable[[str], bool] = lambda domain: True

    def keep(self, domain: str, parts: Iterable[bytes], *, media_type: str = "text/plain") -> str:
        return self.store.keep(self.owner, domain, parts, media_type).reference

    def keep_file(self, domain: str, path: Path, *, media_type: str = "text/plain") -> str:
        return self.store.keep_file(self.owner, domain, path, media_type).reference

    def path_of(self, reference: str) -> Path:
        try:
            artifact = self.store.find(reference, self.owner)
        except OSError as error:
            raise IoError(f"the artifacts cannot be read now: {(error.strerror or str(error)).lower()}") from error
        if artifact is None or not self.opens(artifact.domain):
            raise NotFound(
                f"there is no artifact {reference[:200]} of yours",
                hint="artifacts are kept for some days; repeat the call that gave this reference",
            )
        return self.store.path(artifact)
