"""The daemon's own configuration: tools may read it, and cannot change it in any way."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.bench import Bench
from tools.journal.protected import Protected
from tools.kit.errors import Denied

_SENTENCE = "belongs to the daemon itself: it can be read here and not changed"
_HINT = "the owner switches tools with `mcp-agent enable` and `mcp-agent disable`, or edits the file; ask them"


@pytest.fixture
def guarded(bench: Bench) -> Bench:
    """A configuration folder in the working folder, and a tools.json elsewhere; one place is still empty."""
    bench.file("etc/mcp-agent/tools.json", "{}\n")
    bench.file("etc/mcp-agent/config.toml", "port = 1\n")
    bench.file("own/deep/mine.json", "{}\n")
    bench.file("spare.json", '{"profiles": []}\n')
    bench.file("tree/mcp-agent/tools.json", "{}\n")
    places = ("etc/mcp-agent", "own/deep/mine.json", "absent.json", "no/such/place.json")
    bench.journal.protected = Protected([bench.folder / place for place in places])
    return bench


_REPLACE = [{"type": "replace_all", "pattern": "{", "replacement": "{ "}]
_WRITE = {"content": "x"}
_ATTEMPTS: list[tuple[str, dict[str, Any]]] = [
    ("fs_write", {"path": "etc/mcp-agent/tools.json", **_WRITE}),
    ("fs_write", {"path": "etc/mcp-agent/tools.json", "mode": "append", **_WRITE}),
    ("fs_write", {"path": "etc/mcp-agent/new.json", **_WRITE}),
    ("fs_write", {"path": "etc/mcp-agent/sub/new.json", **_WRITE}),
    ("fs_write", {"path": "etc/../etc/mcp-agent/config.toml", **_WRITE}),
    ("fs_write", {"path": "absent.json", **_WRITE}),
    ("fs_write", {"path": "no/such/place.json", **_WRITE}),
    ("fs_write", {"path": "own/deep/mine.json", **_WRITE}),
    ("fs_patch", {"path": "own/deep/mine.json", "operations": _REPLACE}),
    ("fs_delete", {"path": "etc/mcp-agent/tools.json"}),
    ("fs_delete", {"path": "etc/mcp-agent", "recursive": True}),
    ("fs_delete", {"path": "etc", "recursive": True}),
    ("fs_delete", {"path": "own", "recursive": True}),
    ("fs_move", {"from_": "etc/mcp-agent/tools.json", "to": "gone.json"}),
    ("fs_move", {"from_": "etc", "to": "etc2"}),
    ("fs_move", {"from_": "own/deep", "to": "own/deeper"}),
    ("fs_move", {"from_": "spare.json", "to": "own/deep/mine.json", "overwrite": True}),
    ("fs_move", {"from_": "spare.json", "to": "absent.json"}),
    ("fs_move", {"from_": "spare.json", "to": "etc/mcp-agent/new.json"}),
    ("fs_move", {"from_": "tree/mcp-agent", "to": "etc/mcp-agent/sub"}),
]


def _state(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def _refused(guarded: Bench, name: str, arguments: dict[str, Any]) -> None:
    before = _state(guarded.folder)
    error = guarded.error(name, **arguments)
    assert (error.code, error.hint) == ("DENIED", _HINT)
    assert error.message.endswith(_SENTENCE)
    assert _state(guarded.folder) == before
    assert not (guarded.folder / "etc/mcp-agent/sub").exists()


@pytest.mark.parametrize(("name", "arguments"), _ATTEMPTS)
def test_no_tool_changes_it_by_its_path(guarded: Bench, name: str, arguments: dict[str, Any]) -> None:
    _refused(guarded, name, arguments)


def _through_a_link_to_the_file(folder: Path) -> str:
    (folder / "link.json").symlink_to("etc/mcp-agent/tools.json")
    return "link.json"


def _through_a_link_to_the_folder(folder: Path) -> str:
    (folder / "link").symlink_to("etc/mcp-agent")
    return "link/tools.json"


def _through_a_hard_link(folder: Path) -> str:
    os.link(folder / "own/deep/mine.json", folder / "second-name.json")
    return "second-name.json"


@pytest.mark.parametrize(
    "make", [_through_a_link_to_the_file, _through_a_link_to_the_folder, _through_a_hard_link], ids=lambda f: f.__name__
)
def test_no_link_gets_around_it(guarded: Bench, make: Callable[[Path], str]) -> None:
    path = make(guarded.folder)
    _refused(guarded, "fs_write", {"path": path, "content": "x"})
    _refused(guarded, "fs_patch", {"path": path, "operations": _REPLACE})


def test_a_link_that_leads_to_it_is_neither_deleted_nor_moved_nor_replaced(bench: Bench) -> None:
    bench.file("real/mcp-agent/tools.json", "{}\n")
    bench.file("other/mcp-agent/tools.json", "{ }\n")
    (bench.folder / "between").symlink_to("real")
    (bench.folder / "etc").symlink_to(bench.folder / "between")
    (bench.folder / "rival").symlink_to("other")
    bench.journal.protected = Protected([bench.folder / "etc/mcp-agent/tools.json"])
    for link in ("etc", "between", "real"):
        assert bench.error("fs_delete", path=link, recursive=True).code == "DENIED"
        assert bench.error("fs_move", from_=link, to="elsewhere").code == "DENIED"
    assert bench.error("fs_move", from_="rival", to="etc", overwrite=True).code == "DENIED"
    assert bench.error("fs_write", path="real/mcp-agent/tools.json", content="x").code == "DENIED"
    assert (bench.folder / "etc/mcp-agent/tools.json").read_text() == "{}\n"


def test_a_file_behind_a_link_is_protected_under_both_names(bench: Bench) -> None:
    bench.file("dotfiles/mine.json", "{}\n")
    (bench.folder / "tools.json").symlink_to("dotfiles/mine.json")
    bench.journal.protected = Protected([bench.folder / "tools.json"])
    for path in ("tools.json", "dotfiles/mine.json"):
        assert bench.error("fs_write", path=path, content="x").code == "DENIED"
        assert bench.error("fs_delete", path=path).code == "DENIED"


def test_an_undo_does_not_bring_an_older_state_back(guarded: Bench) -> None:
    guarded.journal.protected = Protected()
    changed = guarded.call("fs_write", path="own/deep/mine.json", content="narrow")
    appended = guarded.call("fs_write", path="own/deep/mine.json", content="er", mode="append")
    moved = guarded.call("fs_move", from_="own/deep", to="own/deeper")
    guarded.undo(moved["undo_id"], "own/deep")
    guarded.journal.protected = Protected([guarded.folder / "own/deep/mine.json"])
    for undo_id in (changed["undo_id"], appended["undo_id"]):
        error = guarded.error("fs_move", from_=f"undo://{undo_id}", to="own/deep/mine.json", overwrite=True)
        assert error.code == "DENIED"
    with pytest.raises(Denied):
        guarded.journal.undo(changed["undo_id"], overwrite=True)
    assert (guarded.folder / "own/deep/mine.json").read_text() == "narrower"


def test_an_old_state_of_another_file_is_not_put_there(guarded: Bench) -> None:
    changed = guarded.call("fs_write", path="spare.json", content="x")
    for place in ("own/deep/mine.json", "absent.json", "etc/mcp-agent/new"):
        error = guarded.error("fs_move", from_=f"undo://{changed['undo_id']}", to=place, overwrite=True)
        assert error.code == "DENIED"


def test_it_can_be_read_and_its_neighbours_changed(guarded: Bench) -> None:
    assert guarded.call("fs_read", path="etc/mcp-agent/tools.json")["content"] == "{}\n"
    assert guarded.call("fs_grep", base="etc", pattern="port")["matches"]
    assert guarded.call("fs_patch", path="own/deep/mine.json", operations=_REPLACE, dry_run=True)["preview"]
    guarded.call("fs_write", path="own/deep/neighbour.json", content="x")
    guarded.call("fs_write", path="etc/other/tools.json", content="x")
    guarded.call("fs_write", path="tree/mcp-agent/tools.json", content="x")
    guarded.call("fs_delete", path="own/deep/neighbour.json")
    guarded.call("fs_move", from_="tree", to="tree2")


def test_a_file_that_gets_the_inode_of_a_replaced_one_can_be_changed(tmp_path: Path) -> None:
    """Seen under load: tools.json was saved, and the next new file, which had the inode of the old one, was refused."""
    place, other = tmp_path / "tools.json", tmp_path / "other"
    place.write_text("{}\n")
    protected = Protected([place])
    with pytest.raises(Denied):
        protected.check_write(place)
    place.rename(other)
    place.write_text("{}\n")
    protected.check_write(other)
    protected.check_entry(other)
    with pytest.raises(Denied):
        protected.check_write(place)
