"""Which paths are on a disk of this machine, so that a look at them cannot hang.

A dead network mount blocks every thread that touches it, and the event loop must not be blocked. The answer comes
from the table of mounts alone: no file is touched.
"""

from __future__ import annotations

import time
from pathlib import Path

_LOCAL_TYPES = frozenset(
    (
        *("bcachefs", "btrfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "jfs", "ntfs3", "overlay", "ramfs"),
        *("reiserfs", "squashfs", "tmpfs", "vfat", "xfs", "zfs"),
    )
)
_TABLE_AGE_S = 5.0


class LocalMounts:
    """The machine's mounts, read again when the last look is more than a few seconds old."""

    def __init__(self, table: Path = Path("/proc/self/mountinfo")) -> None:
        self._table = table
        self._read_at = float("-inf")
        self._is_local: dict[str, bool] = {}

    def holds(self, path: Path) -> bool:
        """Whether `path`, taken by its name, lies on a local disk. Where that cannot be known: no."""
        now = time.monotonic()
        if now - self._read_at > _TABLE_AGE_S:
            self._read_at = now
            self._is_local = self._mounts()
        text = str(path)
        while text not in self._is_local:
            if text == "/" or not text:
                return False
            text = text.rpartition("/")[0] or "/"
        return self._is_local[text]

    def _mounts(self) -> dict[str, bool]:
        try:
            lines = self._table.read_text("utf-8", "surrogateescape").splitlines()
        except OSError:
            return {}
        mounts = {}
        for line in lines:
            before, _, after = line.partition(" - ")
            point = before.split()[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
            mounts[point] = after.split()[0] in _LOCAL_TYPES
        return mounts
