"""Bytes of a file as text that can be written back as the same bytes. What is no text is refused.

Line endings are never translated: a line ends at a line feed, and a carriage return before it is part of the ending.
"""

from __future__ import annotations

import codecs
import os
import re
from typing import NamedTuple, Self

from msgspec import Struct

from tools.kit.errors import IsBinary, NotEncodable

# This many bytes behind a cut tell whether the character before it is whole.
LOOK_AHEAD_BYTES = 4
# This many bytes from the start of a file are enough to detect its encoding.
HEAD_BYTES = 64 * 1024
_SAMPLE_BYTES = 4_096
_SAMPLES = 6
# With fewer foreign bytes than this a guess among all the world's encodings is worse than the commonest one.
_GUESS_BYTES = 24
_GUESSED_FROM = 64 * 1024
_TEXT_CONTROLS = frozenset(b"\t\n\r\f\b\x1b")
_CONTROLS = bytes(byte for byte in range(0x20) if byte not in _TEXT_CONTROLS)
_C1 = re.compile(rb"[\x80-\x9f]")
_MULTIBYTE = ("cp932", "euc_jp", "gb18030", "big5", "euc_kr")
_SINGLE_BYTE = ("cp1252", "latin_1", "cp1250", "cp1251", "koi8_r", "cp1253", "cp1254", "cp1255", "cp1256")
_MAGIC = (
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"\xfd7zXZ\x00", "XZ data"),
    (b"\x7fELF", "an ELF program"),
    (b"SQLite format 3\x00", "a SQLite database"),
    (b"\x00asm", "a WebAssembly module"),
    (b"RIFF", "RIFF media"),
    (b"OggS", "Ogg media"),
)


class Encoding(Struct, frozen=True):
    """How a file's text is written: the codec, and the mark in front of it. `name` is what results say."""

    name: str
    codec: str
    bom: bytes
    newline: bytes
    unit_bytes: int
    # Whether the bytes of a text can only be found where that text is.
    is_bytewise: bool

    @classmethod
    def of(cls, name: str, codec: str, bom: bytes = b"") -> Self:
        newline = "\n".encode(codec)
        return cls(name, codec, bom, newline, len(newline), len(newline) == 1 and codec not in _MULTIBYTE)

    def decode(self, data: bytes) -> str:
        """The text of whole lines of the file, without its mark. Bytes that are no UTF-8 survive the way back."""
        return data.decode(self.codec, "surrogateescape" if self.codec == "utf-8" else "strict")

    def encode(self, text: str) -> bytes:
        return text.encode(self.codec, "surrogateescape" if self.codec == "utf-8" else "strict")

    def encode_for(self, text: str, shown: str) -> bytes:
        """As `encode`, for the file `shown`. Raises NotEncodable."""
        try:
            return self.encode(text)
        except UnicodeEncodeError as error:
            letter = text[error.start : error.start + 1]
            raise NotEncodable(
                f"{shown} is in {self.name}, which cannot hold {letter!r} (character {error.start}); "
                "nothing was changed",
                hint="leave that character out, or replace the whole file with fs_write, which then becomes UTF-8",
            ) from error

    def find_newline(self, data: bytes, at: int = 0) -> int:
        """Where the next line end begins, from `at` on; -1 if there is none. `data` begins with a whole character."""
        found = data.find(self.newline, at)
        while found != -1 and found % self.unit_bytes:
            found = data.find(self.newline, found + 1)
        return found


UTF_8 = Encoding.of("utf-8", "utf-8")
LATIN_1 = Encoding.of("latin-1", "latin-1")
_UTF_16_LE = Encoding.of("utf-16-le", "utf-16-le")
_UTF_16_BE = Encoding.of("utf-16-be", "utf-16-be")
# UTF-32 first: the mark of UTF-16 is the beginning of its own.
_MARKED = (
    Encoding.of("utf-32-le", "utf-32-le", codecs.BOM_UTF32_LE),
    Encoding.of("utf-32-be", "utf-32-be", codecs.BOM_UTF32_BE),
    Encoding.of("utf-8-sig", "utf-8", codecs.BOM_UTF8),
    Encoding.of("utf-16-le", "utf-16-le", codecs.BOM_UTF16_LE),
    Encoding.of("utf-16-be", "utf-16-be", codecs.BOM_UTF16_BE),
)
_MARKS = tuple(encoding.bom for encoding in _MARKED)


class Decoded(NamedTuple):
    text: str
    encoding: Encoding


def decode(data: bytes, *, name: str, size: int, cut: bool, ahead: bytes = b"") -> Decoded:
    """The text in `data`, the first bytes of a file of `size`. Raises IsBinary.

    Where `data` was cut off (`cut`), a character that the cut split is left out. `ahead` are the bytes behind the
    cut: they are no part of the text, and tell its encoding where the cut leaves it open.
    """
    seen = data + ahead if ahead else data
    if b"\0" not in seen and not seen.startswith(_MARKS):
        try:
            if ahead:
                _decode(seen, "utf-8", cut)
            return Decoded(_decode(data, "utf-8", cut), UTF_8)
        except UnicodeDecodeError:
            pass
    encoding = detect_encoding(seen, name=name, size=size, cut=cut)
    try:
        return Decoded(_decode(data[len(encoding.bom) :], encoding.codec, cut), encoding)
    except UnicodeDecodeError:
        raise binary(data, name, size) from None


def detect_encoding(data: bytes, *, name: str, size: int, cut: bool) -> Encoding:
    """The encoding of a file that begins with `data`. Raises IsBinary."""
    for encoding in _MARKED:
        if data.startswith(encoding.bom):
            return encoding
    if b"\0" in data:
        unmarked = _utf_16_without_bom(data)
        if unmarked is None:
            raise binary(data, name, size)
        return unmarked
    try:
        _decode(data, "utf-8", cut)
    except UnicodeDecodeError:
        if data.translate(None, _CONTROLS) != data:
            raise binary(data, name, size) from None
        return _guess_encoding(data)
    return UTF_8


def refuse_later_binary(descriptor: int, start: int, size: int, encoding: Encoding, name: str) -> None:
    """Raise IsBinary if a file that begins like text is none further on, as far as a few samples can tell."""
    if encoding.unit_bytes > 1 or size <= start:
        return
    step = max((size - start) // _SAMPLES, 1)
    places = {*range(start, size, step), max(size - _SAMPLE_BYTES, start)}
    for place in sorted(places):
        if b"\0" in os.pread(descriptor, _SAMPLE_BYTES, place):
            raise binary(os.pread(descriptor, 16, 0), name, size, "binary data after a start that looks like text")


def binary(data: bytes, name: str, size: int, kind: str = "binary data") -> IsBinary:
    known = next((known for magic, known in _MAGIC if data.startswith(magic)), kind)
    return IsBinary(
        f"{name} is {known} of {size} bytes, not text",
        hint="the text tools cannot show it; a program can look at it",
        fields={"size": size, "kind": known},
    )


def encode(text: str, name: str | None) -> bytes:
    """Text of a file in the encoding that a result names, without a mark; None is UTF-8."""
    return text.encode("utf-8" if name in (None, "utf-8-sig") else name, "surrogateescape")


def showable(text: str) -> str:
    """Decoded text as a result can carry it: bytes that are no UTF-8 become U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _decode(data: bytes, codec: str, cut: bool) -> str:
    if not cut:
        return data.decode(codec)
    # A surrogate pair or a character that the cut split is the decoder's unfinished tail.
    return codecs.getincrementaldecoder(codec)("strict").decode(data)


def _utf_16_without_bom(data: bytes) -> Encoding | None:
    """UTF-16 without a mark, if nearly every second byte is NUL, and always on the same side."""
    even, odd = data[0::2], data[1::2]
    for encoding, high, low in ((_UTF_16_LE, odd, even), (_UTF_16_BE, even, odd)):
        if high.count(0) * 2 > len(high) and low.count(0) == 0:
            try:
                _decode(data, encoding.codec, True)
            except UnicodeDecodeError:
                return None
            return None if low.translate(None, _CONTROLS) != low else encoding
    return None


def _guess_encoding(data: bytes) -> Encoding:
    """One of the encodings from before Unicode. Where the text is too short to know, it counts as Western European."""
    western = _western(data)
    foreign = b"\n".join([line for line in data[:_GUESSED_FROM].split(b"\n") if not line.isascii()])
    if len(foreign) - len(re.sub(rb"[\x80-\xff]", b"", foreign)) < _GUESS_BYTES:
        return western
    import charset_normalizer

    found = charset_normalizer.from_bytes(foreign, cp_isolation=[*_SINGLE_BYTE, *_MULTIBYTE])
    best = found.best()
    if best is None:
        return western
    plain = foreign.decode("cp1252", "replace")
    if any(str(match) == plain or match.encoding in ("cp1252", "latin_1") for match in found):
        return western
    codec = best.encoding
    try:
        is_faithful = data.decode(codec).encode(codec) == data
    except UnicodeError:
        is_faithful = False
    return Encoding.of(codec.replace("_", "-"), codec) if is_faithful else western


def _western(data: bytes) -> Encoding:
    """Latin-1, or CP1252 where bytes are used that are letters and quotes there and control characters here."""
    if _C1.search(data) is None:
        return LATIN_1
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        return LATIN_1
    return Encoding.of("cp1252", "cp1252")
