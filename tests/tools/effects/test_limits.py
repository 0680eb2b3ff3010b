"""What is followed without watches, what no rule lets be copied, and what is done when events are lost or a project is
replaced."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.shell_host import shell_host
from tests.tools.effects.conftest import Workshop
from tests.tools.effects.snapshots import run, snapshot
from tools.effects import project_tree
from tools.effects.followed_project import FollowedProject
from tools.effects.project_tree import NotFollowed
from tools.journal.command_rows import read_rows


class Followed:
    """A project with the helper's own objects."""

    def __init__(self, folder: Path, **how: Any) -> None:
        self.root = folder / "project"
        self._entry = folder / "entry"
        (self.root / "src").mkdir(parents=True, exist_ok=True)
        for name in "abc":
            (self.root / "src" / name).write_text(name * 10)
        self.project = FollowedProject(str(self.root), str(folder), **how)
        while not self.project.tree.look_on(1.0):
            pass
        while not self.project.read_on(1.0):
            pass

    def run(self, command: str) -> dict[str, Any]:
        self.project.settle([])
        self.project.settle(["one"])
        run(command, self.root)
        self.project.settle(["one"])
        answer = self.project.end("one", str(self._entry), 1 << 30)
        if self._entry.exists():
            answer["rows"] = read_rows(self._entry).rows
            for path in self._entry.iterdir():
                path.unlink()
            self._entry.rmdir()
        while not self.project.read_on(1.0):
            pass
        return answer


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    made = Followed(tmp_path)
    yield made
    made.project.close()


def test_lost_events_are_made_up_for_by_a_walk(followed: Followed) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    seen = followed.run(f"for i in $(seq {most // 3 + 1000}); do echo $i > src/m$i; done; echo x > src/a")
    assert (seen["created"], seen["changed"]) == (most // 3 + 1000, 1)
    # The watches are there still.
    assert followed.run("echo y > src/m7")["paths"] == ["src/m7"]


def test_a_project_that_was_replaced_is_not_taken_for_the_one_before(followed: Followed) -> None:
    followed.root.rename(followed.root.with_name("before"))
    followed.root.mkdir()
    with pytest.raises(NotFollowed, match="moved or replaced"):
        followed.project.settle([])


def test_without_watches_a_large_project_is_not_followed_and_a_small_one_is_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Followed(tmp_path / "small", has_watches=False)
    assert small.run("echo x > src/a")["paths"] == ["src/a"]
    # Same size and same time: the time of the status says it.
    assert small.run("cp -p src/b k; printf BBBBBBBBBB > src/b; touch -r k src/b; rm k")["paths"] == ["src/b"]
    small.project.close()
    monkeypatch.setattr(project_tree, "MOST_WALKED_FILES", 3)
    with pytest.raises(NotFollowed, match=r"no inotify watches left for it .* more than 3 files"):
        Followed(tmp_path / "large", has_watches=False)


def test_watches_that_run_out_are_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's watches are used up by other programs: the system refuses the next one."""
    from tools.effects.inotify import Watches

    left = 2
    add = Watches.add

    def add_while_there_are(self: Watches, path: str) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(28, os.strerror(28))
        return add(self, path)

    monkeypatch.setattr(Watches, "add", add_while_there_are)
    followed = Followed(tmp_path)
    seen = followed.run("mkdir new; echo x > new/x; echo y > src/a")
    assert (seen["created"], seen["changed"]) == (1, 1)
    assert followed.project.tree.watches is None
    assert followed.run("echo z > new/x")["paths"] == ["new/x"]
    followed.project.close()


def test_what_is_denied_is_seen_and_never_copied(tmp_path: Path) -> None:
    followed = Followed(tmp_path, is_denied=lambda path: path == "src/a")
    seen = followed.run("echo x > src/a; echo y > src/b")
    assert seen["changed"] == 2
    assert seen["not_undoable"] == {"src/a": "a rule of the owner denies it"}
    assert [row.path for row in seen["rows"] if not row.is_same] == ["src/b"]
    followed.project.close()


def test_the_pack_is_written_anew_when_most_of_it_is_old(followed: Followed) -> None:
    followed.project._contents.pack.dead_bytes = 1 << 30
    before = snapshot(followed.root)
    while not followed.project.read_on(0.1):
        pass
    assert followed.project.cached_bytes == 30
    seen = followed.run("echo x > src/a")
    assert seen["changed"] == 1
    assert snapshot(followed.root) != before


def test_what_the_cache_has_no_room_for_is_told(tmp_path: Path) -> None:
    followed = Followed(tmp_path, has_room=lambda size: False)
    assert followed.run("rm src/a")["not_undoable"] == {"src/a": "the cache of contents is full"}
    followed.project.close()


async def test_an_undo_is_refused_where_a_rule_denies_one_of_its_paths(workshop: Workshop, tmp_path: Path) -> None:
    await workshop.is_read()
    done = await workshop.run("echo 2 > src/a.py; echo 2 > src/b.py")
    rule = {"id": "no-b", "pattern": [str(workshop.root / "src/b.py")], "reason": "It is not yours."}
    document = {"version": 1, "activeProfile": "mine", "profiles": [{"id": "mine", "deny": {"paths": [rule]}}]}
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "tools.json").write_text(json.dumps(document))
    async with shell_host(folder, command_undo=True, state_dir=str(tmp_path / "state")) as host:
        arguments = {"from": f"undo://{done['undo_id']}", "to": str(workshop.root)}
        assert (await host.call("fs_move", **arguments))["error"]["code"] == "DENIED"
        assert (workshop.root / "src/a.py").read_text() == "2\n"
        path = workshop.root / "src/a.py"
        assert "error" not in await host.call("fs_move", **{"from": f"{arguments['from']}/src/a.py", "to": str(path)})
        assert path.read_text() == "a = 1\n"


async def test_what_was_moved_is_moved_back_however_large_it_is(workshop: Workshop) -> None:
    large = workshop.root / "large"
    large.touch()
    os.truncate(large, (16 << 20) + 1)
    inode = large.stat().st_ino
    await workshop.is_read()
    before = snapshot(workshop.root)
    done = await workshop.run("mkdir new; mv large new/place; mv src/a.py large")
    assert "not_undoable" not in done["effects"]
    undone = await workshop.undo(done["undo_id"])
    assert snapshot(workshop.root) == before
    assert large.stat().st_ino == inode
    await workshop.undo(undone["undo_id"])
    assert (workshop.root / "new/place").stat().st_ino == inode
