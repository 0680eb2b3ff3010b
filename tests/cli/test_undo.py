"""`mcp-agent undo` walks back, one change at a time, and shows what it takes back."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run


def _write(run: Run, *versions: str) -> None:
    for text in versions:
        assert run("call", "fs_write", "path=file", f"content={text}\n").code == 0


def test_undo_walks_back_step_by_step(run: Run, home: Path) -> None:
    """Seen: three times undo gave v2, v3, v2."""
    file = home / "file"
    _write(run, "one", "two", "three")
    shown = []
    for expected in ("two\n", "one\n"):
        answer = run("undo", "--last", "1")
        assert (answer.code, file.read_text()) == (0, expected), answer.err
        shown.append(answer.out)
    assert "-three\n+two\n" in shown[0]
    assert "-two\n+one\n" in shown[1]
    assert f"{file} is as it was before" in shown[1]
    assert run("undo", "--last", "1").code == 0
    assert not file.exists()
    nothing = run("undo", "--last", "1")
    assert nothing.code == 1
    assert nothing.err.startswith("mcp-agent: there is nothing to undo; to take back the last undo: mcp-agent undo ")


def test_an_undo_can_be_taken_back_by_its_id(run: Run, home: Path) -> None:
    _write(run, "one", "two")
    again = run("undo", "-n", "1").out.rpartition("mcp-agent undo ")[2].strip()
    assert (home / "file").read_text() == "one\n"
    entries = json.loads(run("undo", "--json").out)
    assert [each["id"] for each in entries if "undoes" in each] == [again]
    assert f"(took back {entries[0]['undoes']})" in run("undo").out
    assert run("undo", again).code == 0
    assert (home / "file").read_text() == "two\n"


def test_what_somebody_else_has_changed_is_undone_only_by_force(run: Run, home: Path) -> None:
    _write(run, "one", "two")
    again = run("undo", "--last", "1").out.split()[-1]
    (home / "file").write_text("somebody else")
    refused = run("undo", again)
    assert (refused.code, refused.err.startswith("mcp-agent: [STALE_REV]")) == (1, True)
    assert run("undo", again, "--force").code == 0
    assert (home / "file").read_text() == "two\n"
    assert run("undo", "nothing").code == 1


def test_after_an_undo_a_new_change_is_the_next_to_be_undone(run: Run, home: Path) -> None:
    _write(run, "one", "two", "three")
    run("undo", "--last", "1")
    _write(run, "four")
    assert run("undo", "--last", "2").out.count("is as it was before") == 2
    assert (home / "file").read_text() == "one\n"


def test_a_move_and_a_deletion_are_steps_too(run: Run, home: Path) -> None:
    _write(run, "one")
    run("call", "fs_move", "from=file", "to=other")
    run("call", "fs_delete", "path=other")
    assert run("undo", "--last", "1").code == 0
    assert (home / "other").read_text() == "one\n"
    assert run("undo", "--last", "1").code == 0
    assert (home / "file").read_text() == "one\n"
    assert not (home / "other").exists()
