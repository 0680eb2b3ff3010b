"""Scales a picture down, in a process of its own: what a file unpacks to is bounded by the limits of the process.

The picture is the standard input. The answer is one line, its media type, width and height, and then its bytes. What
is wrong with the picture is said on the standard error, with exit code 1.
"""

from __future__ import annotations

import io
import sys
from typing import BinaryIO

# This much fits a message as base64, with the rest of the message around it.
MOST_BYTES = 700_000
# A photograph of the cameras of today has 50 million.
MOST_PIXELS = 64_000_000
# The longest side, in pixels: models scale down what is larger.
SIDES = (1_568, 1_024, 512)
# Unpacked, the largest picture with transparency takes eight bytes for each pixel.
_MOST_MEMORY = 640 * 1024 * 1024
_MOST_PROCESSOR_S = 20


def main() -> None:
    _limit()
    try:
        media_type, size, data = scale(sys.stdin.buffer)
    except Exception as error:
        # A boundary: whatever Pillow raises, the picture cannot be scaled down.
        sys.exit(str(error)[:200] or "it takes too much memory")
    sys.stdout.buffer.write(f"{media_type} {size[0]} {size[1]}\n".encode() + data)


def scale(source: BinaryIO) -> tuple[str, tuple[int, int], bytes]:
    """The media type, the size and the bytes of a smaller picture. Raises what Pillow raises, and ValueError."""
    from PIL import Image

    # We count the pixels ourselves.
    Image.MAX_IMAGE_PIXELS = None
    with Image.open(source, formats=("PNG", "JPEG", "GIF", "WEBP")) as image:
        # Its head may say less than what is unpacked.
        if image.width * image.height > MOST_PIXELS:
            raise ValueError(f"it has {image.width} × {image.height} pixels")
        has_alpha = "A" in image.getbands() or "transparency" in image.info
        # A JPEG is unpacked at about the size that is needed.
        image.draft("RGB", (SIDES[0], SIDES[0]))
        mode = "RGBA" if has_alpha else "RGB"
        flat = image if image.mode == mode else image.convert(mode)
        for side in SIDES:
            flat.thumbnail((side, side))
            for kind in ("PNG", "WEBP") if has_alpha else ("JPEG",):
                written = io.BytesIO()
                flat.save(written, kind)
                if written.tell() <= MOST_BYTES:
                    return Image.MIME[kind], flat.size, written.getvalue()
    raise ValueError(f"it is too large also at {SIDES[-1]} pixels")


def _limit() -> None:
    try:
        import resource
    except ImportError:
        # Without such limits, the deadline still holds.
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_MOST_PROCESSOR_S, _MOST_PROCESSOR_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
