"""A store of whole texts that were pruned, for `recover_text`: one file per text, so that they survive a restart.

The id of a text is a hash of its content and its owner. So the same text is stored once, and nobody can guess the id of
a text that they do not have. The mtime of a file is the time of the last request to keep it. When the store is full,
the oldest texts are deleted first.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
import time
from pathlib import Path

from tools.files import disk

_NAME = re.compile(r"prn_[a-z2-7]{16}")
_MOST_BYTES = 256 * 1024 * 1024
_SWEEP_BYTES = 16 * 1024 * 1024
_SWEEP_EVERY = 64


class KeptTexts:
    """The texts in a folder. Safe for several threads and several processes."""

    def __init__(self, folder: Path, ttl_s: float, most_bytes: int = _MOST_BYTES, id_suffix: str = "") -> None:
        """`id_suffix` is behind every id that it gives: the name of the box, in a fleet."""
        self._folder = folder
        self._id_suffix = id_suffix
        self._ttl_s = ttl_s
        self._most_bytes = most_bytes
        self._unswept_bytes = _SWEEP_BYTES
        self._unswept = 0

    def keep(self, owner: str, text: str) -> str:
        """Store `text` and give its id. Raises OSError if it cannot be written."""
        data = _owner_hash(owner) + b"\n" + text.encode("utf-8", "surrogatepass")
        name = _name(data)
        path, prune_id = self._folder / name, name + self._id_suffix
        with contextlib.suppress(OSError):
            os.utime(path)
            return prune_id
        self._unswept_bytes += len(data)
        self._unswept += 1
        if self._unswept_bytes >= min(_SWEEP_BYTES, self._most_bytes // 8) or self._unswept >= _SWEEP_EVERY:
            self._unswept_bytes, self._unswept = len(data), 1
            self.sweep()
        # A text that a power cut destroys is pruned again.
        disk.replace_file(path, data, sync=False)
        return prune_id

    def find_text(self, owner: str, prune_id: str) -> str | None:
        """The text, or None if it is unknown, of another owner, or expired."""
        name = prune_id.removesuffix(self._id_suffix)
        if not _NAME.fullmatch(name):
            return None
        try:
            path = self._folder / name
            if path.stat().st_mtime < time.time() - self._ttl_s:
                return None
            data = disk.read_small_file(path)
        except OSError:
            return None
        kept_for, _, text = data.partition(b"\n")
        if kept_for != _owner_hash(owner) or _name(data) != name:
            return None
        return text.decode("utf-8", "surrogatepass")

    def sweep(self) -> float:
        """Delete expired texts, then the oldest until there is room for what is written before the next sweep.

        Returns after how many seconds the next text can expire.
        """
        now = time.time()
        files: list[tuple[float, int, str]] = []
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    files.append((status.st_mtime, status.st_size, entry.path))
        left = sum(size for _, size, _ in files)
        limit = self._most_bytes - min(_SWEEP_BYTES, self._most_bytes // 4)
        for modified, size, path in sorted(files):
            if left <= limit and modified >= now - self._ttl_s:
                break
            with contextlib.suppress(OSError):
                Path(path).unlink()
            left -= size
        else:
            return self._ttl_s
        return min(modified + self._ttl_s - now, self._ttl_s)


def _owner_hash(owner: str) -> bytes:
    return hashlib.sha256(owner.encode()).hexdigest().encode()


def _name(data: bytes) -> str:
    return "prn_" + base64.b32encode(hashlib.sha256(data).digest()[:10]).decode().lower()
