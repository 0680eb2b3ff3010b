"""No path leads out of the root: by its letters, through a link, or while things are exchanged under our feet."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from tools.pruning.confined import ConfinedRoot, NotThere, OutsideRoot


@pytest.fixture
def root(tmp_path: Path) -> ConfinedRoot:
    (tmp_path / "root" / "inner").mkdir(parents=True)
    (tmp_path / "root" / "inner" / "file").write_text("inside")
    (tmp_path / "root-beside").mkdir()
    (tmp_path / "root-beside" / "secret").write_text("outside")
    return ConfinedRoot(tmp_path / "root")


def _read(root: ConfinedRoot, path: str) -> str:
    with root.open(path) as (descriptor, _):
        return os.read(descriptor, 100).decode()


def test_a_name_that_begins_like_the_root_is_not_in_it(root: ConfinedRoot) -> None:
    for path in (f"{root.path}-beside/secret", "../root-beside/secret", "inner/../../root-beside/secret", ".."):
        with pytest.raises(OutsideRoot) as refused, root.open(path):
            pass
        assert refused.value.is_lexical


def test_dots_inside_the_root_are_walked(root: ConfinedRoot) -> None:
    for path in ("inner/file", "./inner/../inner//file", f"{root.path}/inner/./file", f"{root.path}/x/../inner/file"):
        (root.path / "x").mkdir(exist_ok=True)
        assert _read(root, path) == "inside"


@pytest.mark.parametrize("target", ["/etc", "../root-beside", "inner/../../root-beside", "again"])
def test_a_link_that_leads_out_is_not_followed(root: ConfinedRoot, target: str) -> None:
    (root.path / "again").symlink_to("../root-beside")
    (root.path / "link").symlink_to(target)
    for path in ("link", "link/secret", "inner/../link/secret"):
        with pytest.raises(OutsideRoot), root.open(path):
            pass


def test_a_link_that_stays_inside_is_followed(root: ConfinedRoot) -> None:
    (root.path / "near").symlink_to("inner")
    (root.path / "far").symlink_to(root.path / "near" / "file")
    (root.path / "inner" / "up").symlink_to("../inner/file")
    assert [_read(root, path) for path in ("near/file", "far", "inner/up", "near/../inner/up")] == ["inside"] * 4


def test_links_in_a_circle_end(root: ConfinedRoot) -> None:
    (root.path / "a").symlink_to("b")
    (root.path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"), root.open("a"):
        pass


def test_the_root_itself_may_be_reached_through_a_link(tmp_path: Path, root: ConfinedRoot) -> None:
    (tmp_path / "alias").symlink_to(root.path)
    alias = ConfinedRoot(tmp_path / "alias")
    assert [_read(alias, path) for path in ("inner/file", f"{tmp_path}/alias/inner/file")] == ["inside"] * 2


def test_a_root_that_is_exchanged_for_a_link_is_not_followed(tmp_path: Path, root: ConfinedRoot) -> None:
    root.path.rename(tmp_path / "moved")
    (tmp_path / "root").symlink_to(tmp_path / "root-beside")
    with pytest.raises(OutsideRoot), root.open("secret"):
        pass


def test_what_is_no_file_is_never_opened(root: ConfinedRoot) -> None:
    os.mkfifo(root.path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root.path / "socket"))
        for name in ("pipe", "socket"):
            with pytest.raises(NotThere), root.open(name):
                pass


def test_a_folder_exchanged_for_a_link_while_it_is_walked_gives_nothing_away(root: ConfinedRoot) -> None:
    """One thread exchanges a folder for a link to the outside and back, another reads through it all the while."""
    inner, aside, link = root.path / "inner", root.path / "aside", root.path / "link"
    (inner / "secret").write_text("inside")
    link.symlink_to(root.path.parent / "root-beside")
    is_over = threading.Event()

    def exchange() -> None:
        while not is_over.is_set():
            inner.rename(aside)
            link.rename(inner)
            inner.rename(link)
            aside.rename(inner)

    thread = threading.Thread(target=exchange)
    thread.start()
    seen = set()
    try:
        for _ in range(3_000):
            try:
                seen.add(_read(root, "inner/secret"))
            except (OSError, OutsideRoot, NotThere):
                seen.add("refused")
    finally:
        is_over.set()
        thread.join()
    assert seen <= {"inside", "refused"}
    assert "inside" in seen


def test_no_descriptor_stays_open(root: ConfinedRoot) -> None:
    (root.path / "out").symlink_to("/etc")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count, not paths
    for path in ("inner/file", "inner", "out", "missing", "inner/missing", "."):
        try:
            with root.open(path):
                pass
        except (OSError, OutsideRoot):
            pass
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - as above
