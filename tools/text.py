"""Bytes of a file as text, and the refusal of those that are none."""

from __future__ import annotations

import codecs
from typing import NamedTuple

from tools.errors import IsBinary

# UTF-32 first: the mark of UTF-16 is the beginning of its own.
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# So many bytes behind a cut are enough to tell whether the character before it is whole.
LOOK_AHEAD_BYTES = 4
_TEXT_CONTROLS = frozenset(b"\t\n\r\f\b\x1b")
_MAGIC = (
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"\xfd7zXZ\x00", "XZ data"),
    (b"\x7fELF", "an ELF program"),
    (b"SQLite format 3\x00", "a SQLite database"),
)


class Decoded(NamedTuple):
    text: str
    encoding: str


def decode(data: bytes, *, name: str, size: int, cut: bool, ahead: bytes = b"") -> Decoded:
    """The text in `data`, the first bytes of a file of `size`. Raises IsBinary.

    Where `data` was cut off (`cut`), a character that the cut split is left out. `ahead` are the bytes behind the
    cut: they are no part of the text, and tell its encoding where the cut leaves it open.
    """
    seen = data + ahead
    for bom, encoding in _BOMS:
        if seen.startswith(bom):
            # A surrogate pair or a character that the cut split is the decoder's unfinished tail.
            try:
                return Decoded(_decoded(data[len(bom) :], encoding.removesuffix("-sig"), cut), encoding)
            except UnicodeDecodeError:
                raise _binary(data, name, size) from None
    if b"\0" in data:
        raise _binary(data, name, size)
    try:
        if ahead:
            _decoded(seen, "utf-8", cut)
        return Decoded(_decoded(data, "utf-8", cut), "utf-8")
    except UnicodeDecodeError:
        if any(byte < 0x20 and byte not in _TEXT_CONTROLS for byte in data):
            raise _binary(data, name, size) from None
        return Decoded(data.decode("latin-1"), "latin-1")


def _decoded(data: bytes, encoding: str, cut: bool) -> str:
    return codecs.getincrementaldecoder(encoding)("strict").decode(data, final=not cut)


def _binary(data: bytes, name: str, size: int) -> IsBinary:
    kind = next((kind for magic, kind in _MAGIC if data.startswith(magic)), "binary data")
    return IsBinary(f"{name} is {kind} of {size} bytes, not text")
