"""What others do in a project while a command runs: it is shared, and undone only with `overwrite`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.waiting import eventually
from tests.tools.effects.conftest import Workshop
from tools.journal.written_paths import WrittenPaths


class _Under:
    """A command that has changed src/a.py and waits for the end of the block."""

    answer: dict[str, Any]


@asynccontextmanager
async def _command_at_work(workshop: Workshop) -> AsyncIterator[_Under]:
    # The gate is no file of the project.
    gate = workshop.root.parent / "gate"
    line = f"echo 2 > src/a.py; until [ -e {gate} ]; do sleep 0.02; done"
    running, under = asyncio.create_task(workshop.run(line)), _Under()
    await eventually(lambda: (workshop.root / "src/a.py").read_text() == "2\n")
    yield under
    gate.touch()
    under.answer = await running


async def test_what_our_own_tools_write_during_a_command_is_shared(workshop: Workshop) -> None:
    await workshop.is_read()
    source = workshop.root / "src"
    async with _command_at_work(workshop) as command:
        other = {"client": "another", "connection": "another"}
        written = await workshop.host.call("fs_write", path=str(source / "b.py"), content="mine\n", **other)
        places = {"from": str(source / "c.py"), "to": str(source / "d.py")}
        moved = await workshop.host.call("fs_move", **places, **other)
        deep = await workshop.host.call("fs_write", path=str(source / "new/er/e.py"), content="mine\n", **other)
        assert not [each for each in (written, moved, deep) if "error" in each]
    shared = {each.removeprefix(f"{source}/") for each in command.answer["effects"]["shared"]}
    assert shared == {"b.py", "c.py", "d.py", "new", "new/er", "new/er/e.py"}
    undo_id = command.answer["undo_id"]
    refused = await workshop.undo(undo_id)
    assert refused["error"]["code"] == "STALE_REV"
    assert "may have been changed by another command or tool" in refused["error"]["message"]
    assert (source / "a.py").read_text() == "2\n"
    # What is the command's alone is taken back, and the rest is left.
    assert "error" not in await workshop.undo(f"{undo_id}/src/a.py", "src/a.py")
    assert ((source / "a.py").read_text(), (source / "b.py").read_text()) == ("a = 1\n", "mine\n")
    assert (await workshop.undo(f"{undo_id}/src/b.py", "src/b.py"))["error"]["code"] == "STALE_REV"
    assert "error" not in await workshop.undo(undo_id, overwrite=True)
    assert sorted(path.name for path in source.iterdir()) == ["a.py", "b.py", "c.py"]


async def test_what_was_written_before_the_command_is_not_shared(workshop: Workshop) -> None:
    await workshop.is_read()
    path = workshop.root / "src/b.py"
    await workshop.host.call("fs_write", path=str(path), content="mine\n")
    done = await workshop.run("echo 2 > src/b.py")
    assert "shared" not in done["effects"]
    await workshop.undo(done["undo_id"])
    assert path.read_text() == "mine\n"


async def test_what_an_undo_does_during_a_command_is_shared(workshop: Workshop) -> None:
    await workshop.is_read()
    before = await workshop.run("echo 2 > src/b.py")
    async with _command_at_work(workshop) as command:
        assert "error" not in await workshop.undo(before["undo_id"])
    assert command.answer["effects"]["shared"] == [str(workshop.root / "src/b.py")]


async def test_what_a_session_does_during_a_command_is_shared(workshop: Workshop) -> None:
    await workshop.is_read()
    go = workshop.root.parent / "go"
    await workshop.host.start(
        f"until [ -e {go} ]; do sleep 0.02; done; echo 3 > src/b.py; sleep 600", cwd=str(workshop.root)
    )
    async with _command_at_work(workshop) as command:
        go.touch()
        await eventually(lambda: (workshop.root / "src/b.py").read_text() == "3\n")
    # Which of the two has done it cannot be known.
    paths = [str(workshop.root / "src" / name) for name in ("a.py", "b.py")]
    assert command.answer["effects"]["shared"] == paths
    assert (await workshop.undo(command.answer["undo_id"]))["error"]["code"] == "STALE_REV"


async def test_what_a_session_does_that_begins_during_a_command_is_shared(workshop: Workshop) -> None:
    await workshop.is_read()
    async with _command_at_work(workshop) as command:
        await workshop.host.start("echo 3 > src/b.py", cwd=str(workshop.root))
        await eventually(lambda: (workshop.root / "src/b.py").read_text() == "3\n")
    assert str(workshop.root / "src/b.py") in command.answer["effects"]["shared"]


async def test_of_many_commands_at_once_each_is_told_its_own_and_what_else_it_is_told_is_shared(
    workshop: Workshop,
) -> None:
    await workshop.is_read()

    async def work(name: str) -> None:
        for number in range(10):
            effects = (await workshop.run(f"echo {number} > {name}-{number}"))["effects"]
            own = str(workshop.root / f"{name}-{number}")
            assert own in effects["paths"], effects
            assert {*effects["paths"]} - {own} <= {*effects.get("shared", ())}, effects

    await asyncio.gather(*map(work, "abcdef"))


@pytest.mark.parametrize("where", ["in the project", "elsewhere"])
async def test_a_session_that_only_waits_or_is_elsewhere_shares_nothing(workshop: Workshop, where: str) -> None:
    await workshop.is_read()
    if where == "in the project":
        session = await workshop.host.start("echo ready; read line", cwd=str(workshop.root))
    else:
        line = "echo ready; while :; do sleep 0.02; done"
        session = await workshop.host.start(line, cwd=str(workshop.root.parent))
    await workshop.host.read(session, "ready")

    # Its shell comes to rest after it has printed.
    async def shares_nothing() -> bool:
        done = await workshop.run("echo x >> src/a.py")
        return "shared" not in done["effects"]

    await eventually(shares_nothing)


def test_more_writes_than_are_kept_may_be_any() -> None:
    written = WrittenPaths()
    mark = written.mark
    with written.writing(["/a"]):
        assert written.since(mark) == {"/a"}
        with written.writing(["/b", "/c"]):
            pass
        assert written.since(mark) == {"/a", "/b", "/c"}
    # What was under way at the mark is of what came after it.
    assert written.since(mark + 2) == {"/a"}
    assert written.since(written.mark) == set()
    for number in range(2_001):
        with written.writing([f"/{number}"]):
            pass
    assert written.since(mark) is None
    assert written.since(written.mark - 1) == {"/2000"}
