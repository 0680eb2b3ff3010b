"""Pictures: told by their first bytes, and scaled down where a message cannot hold them."""

from __future__ import annotations

import base64
import io
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

from tools.context import Cancelled, ToolContext
from tools.files import image_worker
from tools.files.images import ImageScaler
from tools.files.paths import OpenPaths
from tools.files.revisions import short_rev
from tools.filesystem.fs_read import FileImage, FileText, fs_read
from tools.kit.errors import Busy, IsBinary, TooLarge

_KINDS = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}


def _picture(kind: str, size: tuple[int, int] = (40, 30), *, mode: str = "RGB", noise: bool = False) -> bytes:
    data = os.urandom(size[0] * size[1] * len(mode)) if noise else bytes(size[0] * size[1] * len(mode))
    written = io.BytesIO()
    Image.frombytes(mode, size, data).save(written, kind)
    return written.getvalue()


def _read(path: Path, scaler: ImageScaler | None = None, *, is_cancelled: bool = False) -> FileText | FileImage:
    context = ToolContext(
        "a-call", OpenPaths(path.parent), image_scaler=scaler or ImageScaler(), is_cancelled=is_cancelled
    )
    result = fs_read.function(context, path=str(path), max_bytes=131_072)
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
    assert f"image of 40 × 30 pixels · {len(data)} bytes · rev {short_rev(result.rev or '')}" in result.render()


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_a_large_picture_is_scaled_down_and_says_so(tmp_path: Path, mode: str) -> None:
    data = _picture("PNG", (1_800, 900), mode=mode, noise=True)
    assert len(data) > image_worker.MOST_BYTES
    (tmp_path / "large.png").write_bytes(data)
    result = _read(tmp_path / "large.png")
    assert isinstance(result, FileImage)
    assert (result.width, result.height, result.size) == (1_800, 900, len(data))
    content = result.body.content
    assert content is not None
    assert content.media is not None
    assert len(content.media.data) <= image_worker.MOST_BYTES
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
    (tmp_path / "broken.png").write_bytes(_picture("PNG")[:40] + os.urandom(image_worker.MOST_BYTES))
    with pytest.raises(TooLarge, match="cannot be scaled down"):
        _read(tmp_path / "broken.png")


def test_a_picture_of_too_many_pixels_is_not_unpacked(tmp_path: Path) -> None:
    head = _picture("PNG")
    claimed = head[:16] + (60_000).to_bytes(4, "big") * 2 + head[24:] + bytes(image_worker.MOST_BYTES)
    (tmp_path / "bomb.png").write_bytes(claimed)
    with pytest.raises(TooLarge, match="60000 × 60000 pixels"):
        _read(tmp_path / "bomb.png")


def _bomb(folder: Path, side: int, kind: str = "PNG") -> Path:
    """A small file, just too large to be sent as it is, that unpacks to a picture of `side` × `side` pixels."""
    written = io.BytesIO()
    Image.new("RGB", (side, side)).save(written, kind)
    path = folder / f"bomb-{side}.{kind.lower()}"
    path.write_bytes(written.getvalue().ljust(image_worker.MOST_BYTES + 1, b"\0"))
    return path


def test_what_a_picture_unpacks_to_takes_no_memory_of_ours(tmp_path: Path) -> None:
    program = (
        "import resource, sys\n"
        "from pathlib import Path; from tools.context import ToolContext; from tools.files.paths import OpenPaths\n"
        "from tools.filesystem.fs_read import fs_read\n"
        "path = Path(sys.argv[1])\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(fs_read.function(ToolContext('a', OpenPaths(path.parent)), path=str(path), max_bytes=10).scaled_to)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(_bomb(tmp_path, 6_000))], capture_output=True, text=True, check=True
    )
    scaled_to, grown_mb = done.stdout.splitlines()
    assert scaled_to == "1568 × 1568"
    assert int(grown_mb) < 16


def test_a_picture_that_unpacks_to_hundreds_of_megabytes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match=f"9990 × 9990 pixels, and {image_worker.MOST_PIXELS} are read at most"):
        _read(_bomb(tmp_path, 9_990))


def test_a_frame_that_is_larger_than_the_head_says_is_refused(tmp_path: Path) -> None:
    data = bytearray(_bomb(tmp_path, 9_000, "GIF").read_bytes())
    data[6:10] = bytes((1, 0, 1, 0))
    (tmp_path / "liar.gif").write_bytes(data)
    with pytest.raises(TooLarge, match="cannot be scaled down"):
        _read(tmp_path / "liar.gif")


def test_scaling_ends_at_its_deadline_and_with_its_call(tmp_path: Path) -> None:
    path = _bomb(tmp_path, 7_000)
    with pytest.raises(TooLarge, match="too much memory or time"):
        _read(path, ImageScaler(deadline_s=0.01))
    began = time.monotonic()
    with pytest.raises(Cancelled):
        _read(path, is_cancelled=True)
    assert time.monotonic() - began < 5


def test_many_large_pictures_at_once_wait_for_their_turn_or_are_refused(tmp_path: Path) -> None:
    path, scaler, all_here = _bomb(tmp_path, 1_000), ImageScaler(), threading.Barrier(12)

    def read(_: int) -> str:
        all_here.wait()
        try:
            _read(path, scaler)
        except Busy:
            return "refused"
        return "read"

    with ThreadPoolExecutor(12) as threads:
        outcomes = list(threads.map(read, range(12)))
    assert outcomes.count("read") >= 9
    assert "refused" in outcomes
    assert isinstance(_read(path, scaler), FileImage)
