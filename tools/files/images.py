"""Pictures: which files are one, how large they are, and a smaller one where a message cannot hold it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

from tools.files import image_worker
from tools.files.file_worker import ask_worker
from tools.files.image_worker import MOST_BYTES, MOST_PIXELS
from tools.kit.errors import TooLarge
from tools.kit.places import Places

# More is not read: nobody needs such a picture in a chat.
MOST_FILE_BYTES = 32 * 1024 * 1024
# The size of a picture is within this many bytes of the start of its file.
HEAD_BYTES = 256 * 1024
_MAGIC = (b"\x89PNG\r\n\x1a\n", b"GIF8", b"RIFF", b"\xff\xd8\xff")
_MOST_WAITING = 8
_DEADLINE_S = 30.0
# JPEG: the segments that begin with the size of the frame.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_HEADERLESS = frozenset((0x01, *range(0xD0, 0xD8)))


class Picture(NamedTuple):
    """What the head of a file says of the picture in it."""

    media_type: str
    width: int
    height: int

    @property
    def kind(self) -> str:
        return {"image/webp": "WebP"}.get(self.media_type, self.media_type.rpartition("/")[2].upper())


def is_candidate(data: bytes) -> bool:
    """Whether a file that begins with these bytes may be a picture. Nearly every file is none."""
    return data.startswith(_MAGIC)


def recognize(data: bytes) -> Picture | None:
    """The picture that a file with these first bytes is; None if it is no PNG, JPEG, GIF or WebP with a size."""
    picture = _read_head(data)
    return picture if picture is not None and picture.width and picture.height else None


class ImageScaler:
    """Scales pictures down, one after the other, each in a process of its own. May be used from any thread."""

    def __init__(self, deadline_s: float = _DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._places = Places("large images", at_once=1, waiting=_MOST_WAITING)

    def scale_down(
        self, descriptor: int, size: int, picture: Picture, name: str, check: Callable[[], None]
    ) -> tuple[bytes, Picture]:
        """A smaller picture that fits a message, of an open file of `size` bytes. `check` may raise, and ends it.

        Raises TooLarge, also where Pillow is not installed, and Busy.
        """
        if size > MOST_FILE_BYTES:
            limit = f"at most {MOST_FILE_BYTES} bytes of one are read"
            raise TooLarge(f"{name} is a {picture.kind} image of {size} bytes, and {limit}")
        if picture.width * picture.height > MOST_PIXELS:
            raise TooLarge(
                f"{name} has {picture.width} × {picture.height} pixels, and {MOST_PIXELS} are read at most",
                hint="make a smaller copy with a program",
            )
        if find_spec("PIL") is None:
            raise TooLarge(
                f"{name} is a {picture.kind} image of {size} bytes, and an image may have {MOST_BYTES} bytes",
                hint="install Pillow beside the daemon (pip install 'mcp-agent-host[images]') and it is scaled down; "
                "or make a smaller copy with a program",
            )
        with self._places.take(check):
            answer, problem = ask_worker(image_worker.__file__, descriptor, check, deadline_s=self._deadline_s)
        head, _, data = answer.partition(b"\n")
        if problem or not data:
            raise TooLarge(
                f"{name} is a {picture.kind} image of {size} bytes, which is too large to be sent, and it cannot be "
                f"scaled down: {problem or 'it takes too much memory or time'}"
            )
        media_type, width, height = head.decode().split()
        return data, Picture(media_type, int(width), int(height))


def _read_head(data: bytes) -> Picture | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return Picture("image/png", *_unpack(">II", data, 16))
    if data.startswith((b"GIF87a", b"GIF89a")):
        return Picture("image/gif", *_unpack("<HH", data, 6))
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return Picture("image/webp", *_webp_size(data))
    if data.startswith(b"\xff\xd8\xff"):
        return Picture("image/jpeg", *_jpeg_size(data))
    return None


def _unpack(layout: str, data: bytes, offset: int) -> tuple[int, int]:
    try:
        width, height = struct.unpack_from(layout, data, offset)
    except struct.error:
        return 0, 0
    return width, height


def _webp_size(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8 ":
            width, height = _unpack("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L" if len(data) >= 25:
            bits = int.from_bytes(data[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X" if len(data) >= 30:
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return 0, 0


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _FRAMES:
            height, width = _unpack(">HH", data, at + 5)
            return width, height
        at += 2 if marker in _HEADERLESS else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0, 0
