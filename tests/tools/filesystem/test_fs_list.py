"""fs_list through its own function, on real folders."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bench import Bench
from tests.support.daemon import as_nobody
from tools.context import Cancelled, ToolContext
from tools.files.paths import OpenPaths
from tools.filesystem.fs_list import fs_list
from tools.kit.errors import InvalidPath, NotADirectory, NotFound, PermissionDenied, ToolError

List = Callable[..., dict[str, Any]]
# Names that sort differently by path than by component, need escaping, or are no text at all.
_NAMES = st.sampled_from(
    [b"a", b"a-b", b"a.b", b"b", b"B", b"%41", b"100%", b"caf\xe9", b"caf\\xe9", "é".encode(), b" "]
)
_TREES = st.recursive(st.none(), lambda below: st.dictionaries(_NAMES, below, max_size=4), max_leaves=12).filter(
    lambda tree: tree is not None
)


@pytest.fixture
def listed(tmp_path: Path) -> List:
    return _listing(tmp_path)


def test_a_folder_is_listed_with_what_is_to_be_known_of_each_entry(tmp_path: Path, listed: List) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("12345")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "into").symlink_to("folder")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        with contextlib.chdir(tmp_path):
            listener.bind("socket")
        for name in ("folder", "file", "fifo", "socket"):
            os.utime(tmp_path / name, (86_400, 86_400))
        os.utime(tmp_path / "dangling", (86_400, 86_400), follow_symlinks=False)
        found = listed(".")
    at, day = str(tmp_path), "1970-01-02T00:00:00Z"
    assert found == {
        "path": at,
        "entries": [
            {"path": f"{at}/dangling", "type": "file", "size": 7, "modified": day, "symlink": True},
            {"path": f"{at}/fifo", "type": "file", "size": 0, "modified": day, "special": "fifo"},
            {"path": f"{at}/file", "type": "file", "size": 5, "modified": day},
            {"path": f"{at}/folder", "type": "directory", "modified": day},
            {"path": f"{at}/into", "type": "directory", "modified": day, "symlink": True},
            {"path": f"{at}/link", "type": "file", "size": 5, "modified": day, "symlink": True},
            {"path": f"{at}/socket", "type": "file", "size": 0, "modified": day, "special": "socket"},
        ],
    }


def test_a_device_is_listed_as_one(listed: List) -> None:
    found = {entry["path"]: entry for entry in listed("/dev")["entries"]}
    assert (found["/dev/null"]["type"], found["/dev/null"]["special"]) == ("file", "device")


def test_an_empty_folder_has_no_entries(tmp_path: Path, listed: List) -> None:
    assert listed(str(tmp_path)) == {"path": str(tmp_path), "entries": []}


def test_entries_are_sorted_by_path_components(tmp_path: Path, listed: List) -> None:
    for folder in ("a", "a-b", "B"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x").touch()
    assert _paths(tmp_path, listed(".", recursive=True)) == ["B", "B/x", "a", "a/x", "a-b", "a-b/x"]


def test_a_walk_goes_as_deep_as_max_depth(tmp_path: Path, listed: List) -> None:
    (tmp_path / "1/2/3/4/5").mkdir(parents=True)
    assert _paths(tmp_path, listed(".")) == ["1"]
    assert _paths(tmp_path, listed(".", recursive=True, max_depth=1)) == ["1"]
    assert _paths(tmp_path, listed(".", recursive=True)) == ["1", "1/2", "1/2/3"]
    assert _paths(tmp_path, listed(".", recursive=True, max_depth=9))[-1] == "1/2/3/4/5"


def test_a_tree_deeper_than_functions_may_call_each_other_is_walked(tmp_path: Path, listed: List) -> None:
    with contextlib.chdir(tmp_path):
        for _ in range(1_500):
            os.mkdir("d")  # noqa: PTH102 - one level at a time, below any length of path
            os.chdir("d")
    try:
        found = listed(".", recursive=True, max_depth=2_000, max_entries=5_000)
    finally:
        # Python's own rmtree calls itself too often.
        subprocess.run(["rm", "-r", str(tmp_path / "d")], check=True)
    assert len(found["entries"]) == 1_500


def test_a_link_to_a_folder_is_listed_and_not_entered(tmp_path: Path, listed: List) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "x").touch()
    (tmp_path / "round").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to("self")
    assert _paths(tmp_path, listed(".", recursive=True)) == ["real", "real/x", "round", "self"]
    assert listed("round/real") == {
        **listed("real"),
        "path": f"{tmp_path}/round/real",
        "entries": [{**listed("real")["entries"][0], "path": f"{tmp_path}/round/real/x"}],
    }


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("", InvalidPath, "the path is empty"),
        ("a\0b", InvalidPath, "'a\\x00b' has a NUL character in it, which no file name can have"),
        ("nowhere", NotFound, "{base}/nowhere does not exist"),
        ("file", NotADirectory, "{base}/file is a file, not a folder"),
        ("fifo", NotADirectory, "{base}/fifo is a file, not a folder"),
        ("file/below", NotADirectory, "{base}/file/below: a part of this path is a file, not a folder"),
        ("round", InvalidPath, "{base}/round: its symbolic links lead in a circle"),
    ],
)
def test_what_is_no_folder_is_refused_by_its_own_name(
    tmp_path: Path, listed: List, path: str, error: type[ToolError], message: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "round").symlink_to("round")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(error) as refused:
        listed(path)
    assert refused.value.message == message.format(base=tmp_path)


def test_a_name_that_is_too_long_is_a_bad_path(listed: List) -> None:
    with pytest.raises(InvalidPath, match=r"…: file name too long$"):
        listed("x" * 300)


def test_a_folder_that_may_not_be_read_is_listed_with_the_reason() -> None:
    # Not tmp_path: the folders above that one are closed to another user.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "closed").mkdir(mode=0)
        (folder / "open").mkdir()
        listed = _listing(folder)
        with as_nobody(folder):
            entries = listed(".", recursive=True)["entries"]
            one_by_one = [page["entries"][0] for page in _pages(listed, 1)]
            with pytest.raises(PermissionDenied, match=r"/closed: permission denied$"):
                listed("closed")
    assert [(entry["path"], entry.get("error")) for entry in entries] == [
        (f"{folder}/closed", "permission denied"),
        (f"{folder}/open", None),
    ]
    assert one_by_one == entries


@given(tree=_TREES, page=st.integers(1, 4), depth=st.integers(1, 4))
def test_pages_together_are_the_whole_list(tree: dict[bytes, Any], page: int, depth: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _grow(os.fsencode(folder), tree)
        listed = _listing(Path(folder))
        whole = listed(".", recursive=True, max_depth=depth)["entries"]
        pages = list(_pages(listed, page, depth))
    assert [entry for each in pages for entry in each["entries"]] == whole
    assert all(len(each["entries"]) == page for each in pages[:-1])


def test_a_list_goes_on_after_a_path_of_its_own_and_refuses_another(tmp_path: Path, listed: List) -> None:
    for path in ("a/x", "a/y", "b/z"):
        (tmp_path / "tree" / path).mkdir(parents=True)
    (tmp_path / "link").symlink_to("tree")
    whole = _paths(tmp_path / "tree", listed("tree", recursive=True))
    for after in ("a/x", "./a/x", f"{tmp_path}/tree/a/x"):
        assert _paths(tmp_path / "tree", listed("tree", recursive=True, after=after)) == whole[2:]
    through = listed("link", recursive=True, after=f"{tmp_path}/tree/a/x")
    assert _paths(tmp_path / "link", through) == whole[2:]
    for after in ("tree/a/x", "../tree/a", f"{tmp_path}/other/a", "/"):
        with pytest.raises(InvalidPath, match=r"^after: .* is not in .*/tree$"):
            listed("tree", recursive=True, after=after)


def test_a_page_goes_on_where_an_entry_is_gone(tmp_path: Path, listed: List) -> None:
    for name in ("a", "b/x", "c"):
        (tmp_path / name).mkdir(parents=True)
    first = listed(".", recursive=True, max_entries=3)
    assert (first["truncated"], first["next"]) == (True, f"{tmp_path}/b/x")
    shutil.rmtree(tmp_path / "b")
    assert _paths(tmp_path, listed(".", recursive=True, after=first["next"])) == ["c"]


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="a file system that can hold such a year")
def test_a_file_of_a_far_year_is_listed() -> None:
    """Seen: a year that Python's dates cannot hold was an error inside the daemon."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "far"
        path.touch()
        os.utime(path, (2**40, 2**40))
        (entry,) = _listing(Path(folder))(".")["entries"]
    assert entry == {"path": str(path), "type": "file", "size": 0, "modified": "36812-02-20T00:36:16Z"}


def test_a_walk_whose_caller_is_gone_stops(tmp_path: Path) -> None:
    for number in range(600):
        (tmp_path / str(number)).touch()
    ctx = ToolContext("a-call", OpenPaths(tmp_path), is_cancelled=True)
    with pytest.raises(Cancelled):
        fs_list.function(ctx, **fs_list.parse({"path": "."}))


def test_a_listing_renders_one_entry_a_line(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "x").write_text("123")
    for name in ("sub/x", "sub"):
        os.utime(tmp_path / name, (0, 0))
    ctx = ToolContext("a-call", OpenPaths(tmp_path))
    listing = fs_list.function(ctx, **fs_list.parse({"path": ".", "recursive": True}))
    assert listing.render() == f"{tmp_path} · 2 entries\nsub/\nsub/x\t3"
    detailed = fs_list.function(ctx, **fs_list.parse({"path": ".", "recursive": True, "details": True}))
    assert detailed.render() == (f"{tmp_path} · 2 entries\nsub/\t1970-01-01T00:00:00Z\nsub/x\t3\t1970-01-01T00:00:00Z")
    cut = fs_list.function(ctx, **fs_list.parse({"path": ".", "recursive": True, "max_entries": 1}))
    assert cut.render().splitlines()[0] == f"{tmp_path} · 1 entry · more follow: call again with after='{tmp_path}/sub'"


def test_the_newest_come_first_and_with_times_where_that_is_asked_for(bench: Bench) -> None:
    for number, name in enumerate(("b", "c", "a")):
        os.utime(bench.file(name, ""), (number * 60, number * 60))
    told = bench.tell("fs_list", path=".", sort="mtime", max_entries=2)
    newest = ["a\t0\t1970-01-01T00:02:00Z", "c\t0\t1970-01-01T00:01:00Z"]
    assert told.split("\n") == [f"{bench.folder} · 2 entries · the newest of 3", *newest]
    assert "more follow" in bench.tell("fs_list", path=".", sort="path", max_entries=2)


def _listing(base: Path) -> List:
    """fs_list as a caller has it, counting relative paths from `base`."""
    ctx = ToolContext("a-call", OpenPaths(base))

    def call(path: str, **arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = fs_list.function(ctx, **fs_list.parse({"path": path, **arguments})).as_object()
        return found

    return call


def _pages(listed: List, size: int, depth: int = 3) -> Iterator[dict[str, Any]]:
    after = None
    while True:
        page = listed(".", recursive=True, max_depth=depth, max_entries=size, after=after)
        yield page
        if "next" not in page:
            return
        assert page["truncated"] is True
        after = page["next"]


def _grow(folder: bytes, tree: dict[bytes, Any]) -> None:
    for name, below in tree.items():
        at = os.path.join(folder, name)  # noqa: PTH118 - a Path cannot hold these names
        if below is None:
            os.close(os.open(at, os.O_CREAT | os.O_WRONLY))
        else:
            os.mkdir(at)  # noqa: PTH102 - the same
            _grow(at, below)


def _paths(base: Path, listing: dict[str, Any]) -> list[str]:
    return [str(Path(entry["path"]).relative_to(base)) for entry in listing["entries"]]
