"""Pictures: told by their first bytes, and scaled down where a message cannot hold them."""

from __future__ import annotations

import base64
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from tools.context import ToolContext
from tools.files import images
from tools.files.paths import OpenPaths
from tools.filesystem.fs_read import FileImage, FileText, fs_read
from tools.kit.errors import IsBinary, TooLarge

_KINDS = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}


def _picture(kind: str, size: tuple[int, int] = (40, 30), *, mode: str = "RGB", noise: bool = False) -> bytes:
    data = os.urandom(size[0] * size[1] * len(mode)) if noise else bytes(size[0] * size[1] * len(mode))
    written = io.BytesIO()
    Image.frombytes(mode, size, data).save(written, kind)
    return written.getvalue()


def _read(path: Path) -> FileText | FileImage:
    result = fs_read.function(ToolContext("a-call", OpenPaths(path.parent)), path=str(path), max_bytes=131_072)
    assert isinstance(result, FileText | FileImage)
    return result


@pytest.mark.parametrize("kind", _KINDS)
def test_a_picture_is_told_by_its_bytes_whatever_its_name(tmp_path: Path, kind: str) -> None:
    data = _picture(kind)
    (tmp_path / "notes.txt").write_bytes(data)
    result = _read(tmp_path / "notes.txt")
    assert isinstance(result, FileImage)
    assert (result.media_type, result.width, result.height, result.size) == (_KINDS[kind], 40, 30, len(data))
    sent = result.body.content
    assert sent is not None
    assert sent.media == (_KINDS[kind], data)
    text, image = sent.blocks
    assert text == {"type": "text", "text": result.render()}
    assert image == {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": _KINDS[kind]}
    assert f"image of 40 × 30 pixels · {len(data)} bytes · rev {result.rev}" in result.render()


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_a_large_picture_is_scaled_down_and_says_so(tmp_path: Path, mode: str) -> None:
    data = _picture("PNG", (1_800, 900), mode=mode, noise=True)
    assert len(data) > images.MOST_BYTES
    (tmp_path / "large.png").write_bytes(data)
    result = _read(tmp_path / "large.png")
    assert isinstance(result, FileImage)
    assert (result.width, result.height, result.size) == (1_800, 900, len(data))
    content = result.body.content
    assert content is not None
    assert content.media is not None
    assert len(content.media.data) <= images.MOST_BYTES
    with Image.open(io.BytesIO(content.media.data)) as sent:
        assert Image.MIME[sent.format or ""] == content.media.type
        assert f"scaled down to {sent.width} × {sent.height}" in result.render()
        assert sent.width == 2 * sent.height


def test_without_pillow_a_large_picture_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "large.png").write_bytes(_picture("PNG", (900, 900), noise=True))
    program = (
        "import sys; sys.modules['PIL'] = None\n"
        "from pathlib import Path; from tools.context import ToolContext; from tools.files.paths import OpenPaths\n"
        "from tools.filesystem.fs_read import fs_read\n"
        "path = Path(sys.argv[1])\n"
        "fs_read.function(ToolContext('a', OpenPaths(path.parent)), path=str(path), max_bytes=10)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "large.png")], capture_output=True, text=True, check=False
    )
    assert "large.png is a PNG image of" in done.stderr
    assert "an image may have 700000 bytes" in done.stderr


def test_a_picture_that_is_cut_off_is_binary_data(tmp_path: Path) -> None:
    (tmp_path / "cut.png").write_bytes(_picture("PNG")[:16])
    with pytest.raises(IsBinary, match="is a PNG image of 16 bytes, not text"):
        _read(tmp_path / "cut.png")


def test_a_picture_that_is_broken_and_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(_picture("PNG")[:40] + os.urandom(images.MOST_BYTES))
    with pytest.raises(TooLarge, match="cannot be scaled down"):
        _read(tmp_path / "broken.png")


def test_a_picture_of_too_many_pixels_is_not_unpacked(tmp_path: Path) -> None:
    head = _picture("PNG")
    claimed = head[:16] + (60_000).to_bytes(4, "big") * 2 + head[24:] + bytes(images.MOST_BYTES)
    (tmp_path / "bomb.png").write_bytes(claimed)
    with pytest.raises(TooLarge, match="60000 × 60000 pixels"):
        _read(tmp_path / "bomb.png")
