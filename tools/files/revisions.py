"""Revisions: an opaque name for what a file held when a caller saw it, and the diff to what it holds now."""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from hashlib import blake2b
from pathlib import Path

from tools.files import disk
from tools.files.diffs import diff_texts
from tools.files.exact import exact_descriptor
from tools.files.text import decode
from tools.kit.errors import StaleRev, ToolError

# Up to here a revision is the content's; beyond, reading it all would cost more than the answer.
HASHED_BYTES = 1024 * 1024
_KEPT_BYTES = 256 * 1024
_KEPT_TOTAL_BYTES = 16 * 1024 * 1024
# A small text takes much more memory than its bytes, so the number of texts is limited as well.
_MOST_KEPT = 2_000
_KEPT_REVS = 4
_DIFF_CHARS = 6_000
# As many of its characters tell the revisions of one file apart, and cost a model fewer tokens.
_SHORT_CHARS = 8


def rev_of_bytes(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()


def rev_of_status(status: os.stat_result) -> str:
    """The revision of a file that is too large to be read for it: any write changes its times."""
    facts = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return "s" + blake2b(repr(facts).encode(), digest_size=8).hexdigest()


def short_rev(rev: str) -> str:
    """A revision as a model is shown it."""
    return rev[:_SHORT_CHARS]


def _is_rev(asked: str, rev: str) -> bool:
    """Whether `asked` is a revision, whole or short."""
    return rev == asked or (len(asked) >= _SHORT_CHARS and rev.startswith(asked))


def rev_of_open(descriptor: int) -> tuple[str, bytes | None]:
    """The revision of an open file, and its bytes if they had to be read for it."""
    status = os.fstat(descriptor)
    if status.st_size > HASHED_BYTES:
        return rev_of_status(status), None
    data = disk.read_up_to(descriptor, HASHED_BYTES + 1, status.st_size)
    return (rev_of_bytes(data), data) if len(data) <= HASHED_BYTES else (rev_of_status(os.fstat(descriptor)), None)


class Revs:
    """The texts whose revisions were handed out, newest last; the oldest go when there is no more room."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, bytes] = OrderedDict()
        # The last revisions of a path that were handed out.
        self._seen: OrderedDict[str, list[str]] = OrderedDict()
        self._bytes = 0
        # Tools run in threads, and two of them may hand out at once.
        self._lock = threading.Lock()

    def hand_out(self, rev: str, data: bytes, path: str = "") -> str:
        """Remember that `rev` stands for `data`, the content of `path`, and return it."""
        if len(data) > _KEPT_BYTES:
            return rev
        with self._lock:
            if path:
                earlier = [each for each in self._seen.pop(path, ()) if each != rev]
                self._seen[path] = [rev, *earlier][:_KEPT_REVS]
                if len(self._seen) > _MOST_KEPT:
                    self._seen.popitem(last=False)
            if rev in self._texts:
                self._texts.move_to_end(rev)
                return rev
            self._texts[rev] = data
            self._bytes += len(data)
            while self._bytes > _KEPT_TOTAL_BYTES or len(self._texts) > _MOST_KEPT:
                self._bytes -= len(self._texts.popitem(last=False)[1])
        return rev

    def of_bytes(self, data: bytes, path: str = "") -> str:
        """The revision of a file's whole content, handed out."""
        return self.hand_out(rev_of_bytes(data), data, path)

    def changed_since(self, path: str, wanted: str, now: str) -> str | None:
        """What has changed since `path` was handed out with `wanted` in it, which is not in `now`; None if it was
        not."""
        for rev in self._seen.get(path, ()):
            data = self._texts.get(rev)
            if data is None:
                continue
            try:
                seen = decode(data, name=path, size=len(data), cut=False).text.replace("\r\n", "\n")
            except ToolError:
                continue
            at = seen.find(wanted)
            if at != -1 and (diff := diff_texts(seen, now, limit_chars=_DIFF_CHARS)):
                first = seen.count("\n", 0, at) + 1
                around = _hunks_at(diff, first, first + wanted.count("\n"))
                return f"changed since rev {short_rev(rev)}:\n{around}" if around else None
        return None

    def check_file(self, if_rev: str, path: Path, shown: str) -> None:
        """As `check`, for a file that is not open. Raises OSError."""
        with exact_descriptor(str(path), disk.READ_FLAGS) as descriptor:
            self.check(if_rev, descriptor, shown)

    def check(self, if_rev: str, descriptor: int, shown: str) -> None:
        """Raise StaleRev, with a diff where the seen text is still known, unless the open file is at `if_rev`."""
        rev, data = rev_of_open(descriptor)
        if _is_rev(if_rev, rev):
            return
        fields: dict[str, str] = {"rev": rev}
        with self._lock:
            seen = next((text for known, text in self._texts.items() if _is_rev(if_rev, known)), None)
        if seen is not None and data is not None and len(data) <= _KEPT_BYTES:
            fields["diff"] = _diff(seen, data, shown)
            self.hand_out(rev, data)
        raise StaleRev(
            f"{shown} has changed since rev {if_rev[:40]}: it is at {rev} now",
            hint="look at what changed, then repeat the call with the new rev",
            fields=fields,
        )


def _hunks_at(diff: str, first: int, last: int) -> str:
    """The hunks of a diff that are about the lines from `first` to `last` of its old side."""
    kept: list[str] = []
    for hunk in re.split(r"^(?=@@ -)", diff, flags=re.MULTILINE):
        begins = re.match(r"@@ -(\d+)(?:,(\d+))?", hunk)
        if begins is not None and int(begins[1]) <= last and first < int(begins[1]) + int(begins[2] or 1):
            kept.append(hunk)
    return "".join(kept)


def _diff(seen: bytes, now: bytes, shown: str) -> str:
    try:
        texts = [decode(data, name=shown, size=len(data), cut=False).text for data in (seen, now)]
    except ToolError:
        return f"{shown} was {len(seen)} bytes and is {len(now)} bytes; one of them is no text\n"
    return diff_texts(texts[0], texts[1], limit_chars=_DIFF_CHARS)
