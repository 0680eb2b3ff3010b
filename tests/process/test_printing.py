"""No command prints control characters: what a client puts into names and files cannot control a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from mcp_agent.process.printing import escape_controls
from mcp_agent.storage.artifact_store import ArtifactStore
from tests.support.daemon import COMMAND, command, environment
from tests.support.waiting import PATIENCE_S
from tools.files.paths import from_wire, on_one_line, to_wire

# An escape sequence, a carriage return, BEL, DEL, CSI as one character of C1, the line separators, and a bare C1.
_EVIL = "\x1b[31mred\r\x07\x7f\x9b2J\u2028\u2029\x85"
_CONTROLS = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)} - {"\n", "\t"}


def _line(**facts: object) -> str:
    return json.dumps({"ts": "2026-11-16T10:00:00+00:00", "seq": 1, "boot": "b", **facts}, ensure_ascii=False) + "\n"


@pytest.fixture
def evil_home(home: Path) -> Path:
    """A home in which everything that a command could print has control characters in it."""
    state = home / ".local" / "state" / "mcp-agent"
    (state / "audit").mkdir(parents=True)
    call = _line(tool=_EVIL, client=_EVIL, outcome=_EVIL, args={"path": _EVIL})
    login = _line(event="login_refused", reason=_EVIL, address=_EVIL, path=_EVIL)
    (state / "audit" / "audit.jsonl").write_text(call + login + _line(event=_EVIL, what=_EVIL))
    (home / "file").write_text(f"{_EVIL}\n")
    rule = {"id": "r", "pattern": f"/{_EVIL}", "reason": _EVIL}
    profile = {"id": "default", "label": _EVIL, "description": _EVIL, "deny": {"paths": [rule]}}
    (home / "tools.json").write_text(json.dumps({"version": 1, "activeProfile": "default", "profiles": [profile]}))
    assert command(home, "call", "fs_write", f"path={home}/{_EVIL}", "content=x").returncode == 0
    return home


@pytest.mark.parametrize(
    "arguments",
    [
        ("audit",),
        ("audit", "--json"),
        ("undo", "--list"),
        ("profile", "list"),
        ("profile", "show"),
        ("call", "fs_read", "path=file"),
        ("call", "fs_list", "path=."),
        ("call", "fs_list", "path=.", "--json"),
        ("check", _EVIL),
        (_EVIL,),
        ("token", "show", _EVIL),
    ],
    ids=lambda arguments: " ".join(arguments).encode("ascii", "backslashreplace").decode()[:40],
)
def test_no_command_prints_control_characters(evil_home: Path, arguments: tuple[str, ...]) -> None:
    places = ("--tools-file", str(evil_home / "tools.json")) if arguments[0] != "check" else ()
    done = command(evil_home, *arguments, *places)
    printed = done.stdout + done.stderr
    assert "red" in printed
    assert not set(printed) & _CONTROLS
    if arguments == ("audit", "--json"):
        tools = [json.loads(line).get("tool", _EVIL) for line in done.stdout.splitlines()]
        assert tools == [_EVIL, _EVIL, _EVIL, "fs_write"]


def test_an_artifact_is_shown_plainly_on_a_terminal_and_as_it_is_in_a_pipe(home: Path) -> None:
    store = ArtifactStore(home / ".local" / "state" / "mcp-agent" / "artifacts")
    reference = store.keep("owner", "test", [f"{_EVIL}\n".encode()], "text/plain").reference
    store.close()
    arguments = [COMMAND, "artifacts", "show", reference]
    piped = subprocess.run(arguments, env=environment(home), capture_output=True, timeout=PATIENCE_S, check=True)
    assert piped.stdout == f"{_EVIL}\n".encode()
    ours, theirs = pty.openpty()
    subprocess.run(arguments, env=environment(home), stdout=theirs, timeout=PATIENCE_S, check=True)
    os.close(theirs)
    shown = os.read(ours, 10_000).decode().replace("\r\n", "\n")
    os.close(ours)
    assert shown == f"{escape_controls(_EVIL)}\n"


def test_a_name_with_control_characters_is_read_back_as_it_was_shown() -> None:
    shown = on_one_line(to_wire(f"/tmp/{_EVIL}"))
    assert not set(shown) & _CONTROLS
    assert os.fsencode(from_wire(shown)) == f"/tmp/{_EVIL}".encode()


def test_nothing_turns_the_direction_of_a_line() -> None:
    """A name could make a line of ours read as another one."""
    assert escape_controls("a\u202eb\u2066c \u0645") == "a\\u202eb\\u2066c \u0645"
