"""Documents that have text in them: PDF, and those of office programs. They are read as text, and only read."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal, get_args

from tools.files import document_worker
from tools.files.file_worker import ask_worker
from tools.kit.errors import IsBinary, TooLarge
from tools.kit.places import Places

DocumentKind = Literal["PDF", "DOCX", "XLSX", "PPTX", "ODT", "ODS", "ODP"]
_PDF_START, _ZIP_START = b"%PDF-", b"PK\x03\x04"
_BY_SUFFIX: dict[str, DocumentKind] = {f".{kind.lower()}": kind for kind in get_args(DocumentKind)}
# What is installed beside the daemon for it; the others need nothing.
_LIBRARIES: dict[DocumentKind, str] = {"PDF": "pypdf", "XLSX": "openpyxl"}
MOST_FILE_BYTES = 64 * 1024 * 1024
_DEADLINE_S = 60.0
_MOST_WAITING = 8
_MOST_KEPT = 8
_MOST_KEPT_BYTES = 16 * 1024 * 1024


def kind_of(name: str, head: bytes) -> DocumentKind | None:
    """The kind of document that a file of this name is, which begins with `head`; None for everything else."""
    # Nearly every file is none.
    if not head.startswith((_PDF_START, _ZIP_START)):
        return None
    kind = _BY_SUFFIX.get(os.path.splitext(name)[1].lower())  # noqa: PTH122 - a name as results have it
    return kind if (kind == "PDF") == head.startswith(_PDF_START) else None


class DocumentReader:
    """Gives the text of documents, one after the other, and keeps the last ones. May be used from any thread."""

    def __init__(self, deadline_s: float = _DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._places = Places("documents", at_once=1, waiting=_MOST_WAITING)
        self._kept: OrderedDict[tuple[int, int, int, int], str] = OrderedDict()
        self._lock = threading.Lock()

    def text(self, descriptor: int, kind: DocumentKind, name: str, check: Callable[[], None]) -> str:
        """The text of an open file. `check` may raise, and ends it. Raises IsBinary, TooLarge, Busy."""
        status = os.fstat(descriptor)
        identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        with self._lock:
            if (text := self._kept.get(identity)) is not None:
                self._kept.move_to_end(identity)
                return text
        text = self._read(descriptor, status.st_size, kind, name, check)
        with self._lock:
            self._kept[identity] = text
            while len(self._kept) > _MOST_KEPT or sum(map(len, self._kept.values())) > _MOST_KEPT_BYTES:
                self._kept.popitem(last=False)
        return text

    def _read(self, descriptor: int, size: int, kind: DocumentKind, name: str, check: Callable[[], None]) -> str:
        if size > MOST_FILE_BYTES:
            raise TooLarge(f"{name} is a {kind} of {size} bytes, and at most {MOST_FILE_BYTES} bytes of one are read")
        library = _LIBRARIES.get(kind)
        if library is not None and find_spec(library) is None:
            raise IsBinary(
                f"{name} is a {kind} of {size} bytes, not text",
                hint="install what reads it beside the daemon (pip install 'mcp-agent-host[documents]'); "
                "or turn it into text with a program",
            )
        with self._places.take(check):
            answer, problem = ask_worker(
                document_worker.__file__, descriptor, check, deadline_s=self._deadline_s, arguments=[kind]
            )
        if problem or not answer:
            why = problem.splitlines()[-1] if problem else "it takes too much memory or time"
            raise IsBinary(f"the text of {name}, a {kind} of {size} bytes, cannot be read: {why}")
        return answer.decode("utf-8", "replace")
