"""Pictures: which files are one, how large they are, and a smaller one where a message cannot hold it."""

from __future__ import annotations

import io
import struct
from typing import NamedTuple

from tools.kit.errors import TooLarge

# As base64, with what is around it, so much fits a message.
MOST_BYTES = 700_000
# More is not read: nobody needs such a picture in a chat.
MOST_FILE_BYTES = 32 * 1024 * 1024
# So much of a file has the size of the picture in it.
HEAD_BYTES = 256 * 1024
_MAGIC = (b"\x89PNG\r\n\x1a\n", b"GIF8", b"RIFF", b"\xff\xd8\xff")
_MOST_PIXELS = 100_000_000
# The longest side, in pixels: models scale down what is larger.
_SIDES = (1_568, 1_024, 512)
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


def scale_down(data: bytes, picture: Picture, name: str) -> tuple[bytes, Picture]:
    """A smaller picture that fits a message. Raises TooLarge, also where Pillow is not installed."""
    try:
        # Imported at first use: it is optional, and slow to load.
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise TooLarge(
            f"{name} is a {picture.kind} image of {len(data)} bytes, and an image may have {MOST_BYTES} bytes",
            hint="install Pillow beside the daemon (pip install 'mcp-agent-host[images]') and it is scaled down; "
            "or make a smaller copy with a program",
        ) from None
    if picture.width * picture.height > _MOST_PIXELS:
        raise TooLarge(f"{name} has {picture.width} × {picture.height} pixels, and {_MOST_PIXELS} are read at most")
    try:
        with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP")) as image:
            has_alpha = "A" in image.getbands() or "transparency" in image.info
            flat = image.convert("RGBA" if has_alpha else "RGB")
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError) as error:
        raise TooLarge(
            f"{name} is a {picture.kind} image of {len(data)} bytes, which is too large to be sent, and it cannot be "
            f"scaled down: {str(error)[:100]}"
        ) from error
    kinds = (("PNG", "image/png"), ("WEBP", "image/webp")) if has_alpha else (("JPEG", "image/jpeg"),)
    for side in _SIDES:
        flat.thumbnail((side, side))
        for kind, media_type in kinds:
            written = io.BytesIO()
            flat.save(written, kind)
            if written.tell() <= MOST_BYTES:
                return written.getvalue(), Picture(media_type, *flat.size)
    raise TooLarge(f"{name} is too large to be sent, also when it is scaled down to {_SIDES[-1]} pixels")


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
