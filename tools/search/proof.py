"""The proof that a line which a search program printed is in the file that was checked.

The program opens files by their names. If somebody puts a link in the place of a folder meanwhile, it reads files
elsewhere, and their lines come with the names of what was there before. So each file that has matches is opened again,
from the open folder of the search and through no link, and the lines are compared with it. This costs a few system
calls for a file with matches, and nothing for the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from tools.files import disk
from tools.files.exact import exact_descriptor
from tools.search.engine import Hit

# A line as it was printed, and its place in the file.
Evidence = tuple[int, bytes]

_UTF_8_BOM = b"\xef\xbb\xbf"
_UTF_16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_READ_BYTES = 64 * 1024
_MOST_UTF_16_BYTES = 64 * 1024 * 1024


def verify_hits(
    folder: int, path: bytes, hits: Sequence[Hit], evidence: Sequence[Evidence], again: Callable[[int], list[Hit]]
) -> Sequence[Hit]:
    """The hits in the file `path` below the open folder, if all of their lines are there.

    Otherwise the file has changed, or it was another one: then it is searched `again`, by its descriptor.
    """
    try:
        with exact_descriptor(path, disk.READ_FLAGS, folder) as descriptor:
            if _holds(descriptor, evidence):
                return hits
            found = again(descriptor)
    except OSError:
        return []
    for hit in found:
        hit.path = path
    return found


def _holds(descriptor: int, evidence: Sequence[Evidence]) -> bool:
    if _holds_from(descriptor, evidence, 0):
        return True
    # The program leaves out a byte order mark, and counts from behind it.
    head = os.pread(descriptor, len(_UTF_8_BOM), 0)
    if head.startswith(_UTF_16_BOMS):
        return _holds_decoded(descriptor, evidence)
    return head == _UTF_8_BOM and _holds_from(descriptor, evidence, len(_UTF_8_BOM))


def _holds_from(descriptor: int, evidence: Sequence[Evidence], skipped: int) -> bool:
    data, start = b"", 0
    for offset, line in evidence:
        line = line.rstrip(b"\r\n")
        if not start <= offset <= offset + len(line) <= start + len(data):
            # Together with the lines that follow, of which there may be many.
            size = len(line) if len(evidence) == 1 else max(len(line), _READ_BYTES)
            data, start = os.pread(descriptor, size, skipped + offset), offset
        if not data.startswith(line, offset - start):
            return False
    return True


def _holds_decoded(descriptor: int, evidence: Sequence[Evidence]) -> bool:
    data = os.pread(descriptor, _MOST_UTF_16_BYTES, 0).decode("utf-16", "replace").encode("utf-8", "replace")
    return all(data.startswith(line.rstrip(b"\r\n"), offset) for offset, line in evidence)
