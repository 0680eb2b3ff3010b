"""fs_read through its own function, on real files."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.daemon import as_nobody
from tools.context import ToolContext
from tools.files.paths import OpenPaths
from tools.files.revisions import short_rev
from tools.files.text import LOOK_AHEAD_BYTES, decode
from tools.filesystem.fs_read import fs_read
from tools.kit.errors import (
    InvalidPath,
    IoError,
    IsBinary,
    IsSpecial,
    NotADirectory,
    NotAFile,
    NotFound,
    PermissionDenied,
    ToolError,
)

Read = Callable[..., dict[str, Any]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """fs_read as a caller has it, counting relative paths from `tmp_path`."""
    ctx = ToolContext("a-call", OpenPaths(tmp_path))

    def call(path: str, **arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = fs_read.function(ctx, **fs_read.parse({"path": path, **arguments})).as_object()
        assert found.pop("rev")
        return found

    return call


def test_a_file_is_given_whole_with_its_absolute_path(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.txt").write_bytes("één\r\ntwo".encode())
    assert read("a.txt") == {"path": str(tmp_path / "a.txt"), "content": "één\r\ntwo", "size": 10}


def test_an_empty_file_is_an_empty_text(tmp_path: Path, read: Read) -> None:
    (tmp_path / "empty").touch()
    assert read("empty") == {"path": str(tmp_path / "empty"), "content": "", "size": 0}


def test_a_file_of_exactly_max_bytes_is_not_truncated(tmp_path: Path, read: Read) -> None:
    (tmp_path / "four").write_text("1234")
    assert read("four", max_bytes=4) == {"path": str(tmp_path / "four"), "content": "1234", "size": 4}
    assert read("four", max_bytes=3) == {
        "path": str(tmp_path / "four"),
        "content": "123",
        "truncated": True,
        "size": 4,
        "next_line": 1,
    }


@given(
    text=st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff"), min_size=1, max_size=40),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]),
    cut=st.integers(1, 60),
)
def test_a_cut_never_splits_a_character(text: str, encoding: str, cut: int) -> None:
    bom = "" if encoding in ("utf-8", "utf-8-sig") else "\ufeff"
    data = (bom + text).encode(encoding)
    decoded = decode(data[:cut], name="x", size=len(data), cut=cut < len(data), ahead=data[cut:][:LOOK_AHEAD_BYTES])
    assert decoded.encoding.name == encoding
    assert text.startswith(decoded.text)
    assert len((bom + decoded.text).encode(encoding)) <= max(cut, len(bom.encode(encoding)), 3)
    if cut >= len(data):
        assert decoded.text == text


@pytest.mark.parametrize(
    ("data", "cut", "content", "encoding"),
    [
        ("a€b".encode(), 2, "a", None),
        ("a€b".encode(), 4, "a€", None),
        ("a😀".encode(), 4, "a", None),
        ("a😀".encode("utf-16"), 5, "a", "utf-16-le"),
        ("a😀".encode("utf-16"), 7, "a", "utf-16-le"),
        ("a😀".encode("utf-16"), 8, "a😀", "utf-16-le"),
        ("äb".encode("utf-16"), 1, "", "utf-16-le"),
        (b"caf\xe9 au lait", 4, "café", "latin-1"),
    ],
)
def test_what_a_cut_leaves_is_read_as_the_whole_would_be(
    tmp_path: Path, read: Read, data: bytes, cut: int, content: str, encoding: str | None
) -> None:
    (tmp_path / "x").write_bytes(data)
    found = read("x", max_bytes=cut)
    assert (found["content"], found.get("encoding"), found["size"]) == (content, encoding, len(data))


@pytest.mark.parametrize(
    ("data", "content", "encoding"),
    [
        (b"\xef\xbb\xbfb\xc3\xa4", "bä", "utf-8-sig"),
        ("bä".encode("utf-16"), "bä", "utf-16-le"),
        (b"\xfe\xff" + "bä".encode("utf-16-be"), "bä", "utf-16-be"),
        ("bä".encode("utf-32"), "bä", "utf-32-le"),
        (b"caf\xe9\n", "café\n", "latin-1"),
        (b"\x1b[31mred\x1b[0m\t\x08", "\x1b[31mred\x1b[0m\t\x08", None),
    ],
)
def test_text_is_read_in_its_encoding(
    tmp_path: Path, read: Read, data: bytes, content: str, encoding: str | None
) -> None:
    (tmp_path / "x").write_bytes(data)
    found = read("x")
    assert (found["content"], found.get("encoding")) == (content, encoding)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "a PNG image"),
        (b"PK\x03\x04\0\0", "a ZIP archive"),
        (b"\x7fELF\x02\0", "an ELF program"),
        (b"%PDF-1.7\n\xff\xff\x00", "a PDF document"),
        (b"text and a NUL \0", "binary data"),
        (b"\xff\xfe\x00\xd8\x00\x00", "binary data"),
        (b"\xe9\x01\x02", "binary data"),
    ],
)
def test_a_binary_file_is_refused_with_its_size_and_kind(tmp_path: Path, read: Read, data: bytes, kind: str) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(IsBinary) as refused:
        read("x")
    assert refused.value.message == f"{tmp_path / 'x'} is {kind} of {len(data)} bytes, not text"


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("", InvalidPath, "the path is empty"),
        ("a\0b", InvalidPath, "'a\\x00b' has a NUL character in it, which no file name can have"),
        ("nowhere", NotFound, "{base}/nowhere does not exist"),
        ("folder", NotAFile, "{base}/folder is a folder"),
        ("file/below", NotADirectory, "{base}/file/below: a part of this path is a file, not a folder"),
        ("round", InvalidPath, "{base}/round: its symbolic links lead in a circle"),
        ("dangling", NotFound, "{base}/dangling does not exist"),
        ("fifo", IsSpecial, "{base}/fifo is a pipe, a socket or a device, and those are never opened"),
        ("socket", IsSpecial, "{base}/socket is a pipe, a socket or a device, and those are never opened"),
        ("/dev/zero", IsSpecial, "/dev/zero is a pipe, a socket or a device, and those are never opened"),
        ("/proc/self/mem", IoError, "/proc/self/mem: input/output error"),
    ],
)
def test_what_is_no_readable_file_is_refused_by_its_own_name(
    tmp_path: Path, read: Read, path: str, error: type[ToolError], message: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        # By a short name: a socket's address has at most 108 bytes.
        with contextlib.chdir(tmp_path):
            listener.bind("socket")
        with pytest.raises(error) as refused:
            read(path)
    assert refused.value.message == message.format(base=tmp_path)


def test_a_name_that_is_too_long_is_told_short(tmp_path: Path, read: Read) -> None:
    with pytest.raises(InvalidPath, match=r"…: file name too long$") as refused:
        read("x" * 300)
    assert len(refused.value.message) < 120


def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "secret").chmod(0)
    ctx = ToolContext("a-call", OpenPaths(Path()))
    with as_nobody(tmp_path), pytest.raises(PermissionDenied) as refused:
        fs_read.function(ctx, path="secret", max_bytes=10)
    assert refused.value.message == "secret: permission denied"


def test_a_file_that_says_it_is_empty_is_read_to_its_end(read: Read) -> None:
    found = read("/proc/self/status")
    assert found["content"].startswith("Name:")
    assert found["size"] == len(found["content"].encode())


@pytest.mark.skipif(not Path("/sys/kernel/uevent_seqnum").exists(), reason="no sysfs here")
def test_a_file_that_says_it_is_larger_than_it_is_has_the_size_that_was_read(read: Read) -> None:
    found = read("/sys/kernel/uevent_seqnum")
    assert found["size"] == len(found["content"])


def test_a_link_is_followed_and_keeps_its_name(tmp_path: Path, read: Read) -> None:
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to("real")
    assert read("link") == {"path": str(tmp_path / "link"), "content": "x", "size": 1}


def test_paths_are_expanded_and_made_canonical(tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "x").write_text("x")
    for path in ("~/x", "home/x", "./home//x", "home/../home/./x", str(tmp_path / "home" / "x"), "nowhere/../home/x"):
        assert read(path)["path"] == str(tmp_path / "home" / "x")
    with pytest.raises(NotFound, match=r"/~nobody-of-that-name/x does not exist"):
        read("~nobody-of-that-name/x")


def test_a_reading_renders_as_a_header_and_the_raw_text(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("one\ntwo\n")
    ctx = ToolContext("a-call", OpenPaths(tmp_path))
    whole = fs_read.function(ctx, path="x", max_bytes=100)
    assert whole.render() == f"{tmp_path / 'x'} · 8 bytes · rev {short_rev(whole.rev)}\none\ntwo\n"
    cut = fs_read.function(ctx, path="x", max_bytes=3).render()
    told = f"{tmp_path / 'x'} · the start of 8 bytes; go on with fs_read_range from line 1 · rev {short_rev(whole.rev)}"
    assert cut == f"{told}\none"
