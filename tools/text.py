"""Bytes of a file as text, and the refusal of those that are none."""

from __future__ import annotations

import codecs
from typing import NamedTuple

from tools.errors import IsBinary

_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
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


def decode(data: bytes, *, name: str, size: int, cut: bool) -> Decoded:
    """The text in `data`, the first bytes of a file of `size`. Raises IsBinary.

    Where `data` was cut off (`cut`), a character that the cut split is left out.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            # A surrogate pair or a character that the cut split is the decoder's unfinished tail.
            decoder = codecs.getincrementaldecoder("utf-8" if encoding == "utf-8-sig" else encoding)("strict")
            try:
                return Decoded(decoder.decode(data[len(bom) :], final=not cut), encoding)
            except UnicodeDecodeError:
                raise _binary(data, name, size) from None
    if b"\0" in data:
        raise _binary(data, name, size)
    try:
        return Decoded(codecs.getincrementaldecoder("utf-8")("strict").decode(data, final=not cut), "utf-8")
    except UnicodeDecodeError:
        if any(byte < 0x20 and byte not in _TEXT_CONTROLS for byte in data):
            raise _binary(data, name, size) from None
        return Decoded(data.decode("latin-1"), "latin-1")


def _binary(data: bytes, name: str, size: int) -> IsBinary:
    kind = next((kind for magic, kind in _MAGIC if data.startswith(magic)), "binary data")
    return IsBinary(f"{name} is {kind} of {size} bytes, not text")
