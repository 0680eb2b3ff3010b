"""No argument makes an internal error: what the system cannot do is said in the caller's terms."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.calls.call import Call, Caller, Failure, Success
from registry.gate import Access
from tests.support.shell_host import ShellHost, shell_host
from tools.kit.errors import InternalError

_ODD = {
    "a long name": "x" * 300,
    "a long name in two bytes a letter": "ü" * 200,
    "a long path": "y/" * 2_600,
    "below a long name": f"{'z' * 300}/q",
    "bytes that are no text": "\\xff" * 50,
    "a NUL": "a\0b",
    "a bell": "\x07",
    "empty": "",
    "a megabyte": "m" * 1_000_000,
}
_CALLS: dict[str, dict[str, Any]] = {
    "fs_read": {"path": "{}"},
    "fs_read_range": {"path": "{}", "start_line": 1, "end_line": 2},
    "fs_write": {"path": "{}", "content": "x"},
    "fs_write content": {"path": "new", "content": "{}"},
    "fs_delete": {"path": "{}"},
    "fs_move": {"from": "{}", "to": "elsewhere"},
    "fs_move to": {"from": "mine", "to": "{}"},
    "fs_list": {"path": "{}"},
    "fs_search": {"base": "{}", "glob": "*"},
    "fs_search glob": {"base": ".", "glob": "{}"},
    "fs_grep": {"base": "{}", "pattern": "x"},
    "fs_grep pattern": {"base": ".", "pattern": "{}"},
    "fs_grep glob": {"base": ".", "pattern": "x", "glob": "{}"},
    "fs_patch": {"path": "{}", "operations": [{"type": "replace", "pattern": "a", "replacement": "b"}]},
    "read": {"file_path": "{}"},
    "grep": {"path": "{}", "pattern": "x"},
    "grep pattern": {"path": ".", "pattern": "{}"},
    "bash": {"command": "true", "cwd": "{}"},
    "bash command": {"command": "true {}"},
    "shell_exec": {"command": "true", "cwd": "{}"},
    "shell_exec command": {"command": "true {}"},
    "shell_start_session": {"command": "true", "cwd": "{}"},
    "shell_start_session env": {"command": "true", "env": {"NAME": "{}"}},
    "shell_send_input": {"session_id": "{}", "input": ""},
    "artifact_read": {"ref": "{}"},
    "recover_text": {"prune_id": "{}", "line_start": 0, "line_end": 3},
}


@pytest.fixture
async def ruled(tmp_path: Path) -> AsyncIterator[ShellHost]:
    """A host whose profile has deny rules: every path is compared with them, before it is looked at."""
    path = {"id": "secrets", "pattern": "**/secret/**", "reason": "they are secret"}
    command = {"id": "shred", "pattern": "shred .*", "reason": "it cannot be undone"}
    profile = {"id": "default", "enabled": True, "deny": {"paths": [path], "commands": [command]}}
    document = {"version": 1, "activeProfile": "default", "profiles": [{**profile, "categories": []}]}
    (tmp_path / "tools.json").write_text(json.dumps(document))
    async with shell_host(tmp_path) as host:
        yield host


@pytest.mark.parametrize("odd", _ODD.values(), ids=_ODD)
async def test_an_odd_argument_is_an_error_of_the_caller_or_none(ruled: ShellHost, odd: str) -> None:
    (ruled.folder / "mine").touch()
    for name, arguments in _CALLS.items():
        given = json.loads(json.dumps(arguments), object_hook=_put(odd))
        call = Call("test", Caller("owner", Access(), "rpc", ""), name.split()[0], given)
        outcome = await ruled.daemon.dispatcher.call(call)
        assert not (isinstance(outcome, Failure) and isinstance(outcome.error, InternalError)), name


_LONG_PATH = "/" + "a/" * 200_000
_WRONG = [{"type": "replace_all", f"patern{number}": "a"} for number in range(6_000)]
_COSTLY: list[tuple[str, dict[str, Any]]] = [
    ("fs_read", {"path": _LONG_PATH}),
    ("fs_list", {"path": "file://" * 100_000}),
    ("fs_grep", {"base": "\\x0a" * 100_000, "pattern": "x"}),
    ("fs_write", {"path": "../" * 200_000, "content": ""}),
    ("read", {"file_path": _LONG_PATH}),
    ("shell_exec", {"command": "true", "cwd": _LONG_PATH}),
    ("fs_list", {f"k{number}": 1 for number in range(20_000)}),
    ("fs_patch", {"path": "x", "operations": _WRONG}),
    ("fs_" + "r" * 2_000_000, {}),
]


@pytest.mark.parametrize(("tool", "arguments"), _COSTLY)
async def test_no_argument_takes_long(shell: ShellHost, tool: str, arguments: dict[str, Any]) -> None:
    """Seen: a path of 400,000 parts stopped the daemon for minutes, 45,000 unknown arguments for seconds."""
    began = time.process_time()
    outcome = await shell.daemon.dispatcher.call(Call("test", Caller("owner", Access(), "rpc", ""), tool, arguments))
    assert time.process_time() - began < 0.8
    assert not isinstance(outcome, Success)


async def test_a_pattern_to_wait_for_is_bounded(shell: ShellHost) -> None:
    session = await shell.call("shell_start_session", command="sleep 60")
    for until in ("|".join(f"abc{number}" for number in range(200_000)), "(" * 4_000 + ")" * 4_000):
        asked = {"session_id": session["session_id"], "input": "", "until": until, "wait_ms": 10}
        began = time.process_time()
        assert (await shell.call("shell_send_input", **asked))["error"]["code"] == "INVALID_PATTERN"
        assert time.process_time() - began < 0.8


def _put(odd: str) -> Any:
    def put(fields: dict[str, Any]) -> dict[str, Any]:
        return {name: value.replace("{}", odd) if isinstance(value, str) else value for name, value in fields.items()}

    return put


@pytest.fixture
def shrinking(tmp_path: Path) -> Iterator[Path]:
    """A file that another program truncates and fills all the time."""
    path, stop = tmp_path / "shrinking.txt", threading.Event()

    def churn() -> None:
        text = b"a line of text\n" * 20_000
        while not stop.is_set():
            path.write_bytes(text)
            os.truncate(path, 37)
            os.truncate(path, 0)

    thread = threading.Thread(target=churn)
    thread.start()
    yield path
    stop.set()
    thread.join()


async def test_a_file_that_is_truncated_while_it_is_read_is_no_internal_error(
    shell: ShellHost, shrinking: Path
) -> None:
    path = str(shrinking)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("fs_read", {"path": path}),
        ("fs_read", {"path": path, "context_focus_question": "what is in line 5?"}),
        ("fs_read_range", {"path": path, "start_line": 100, "end_line": 15_000}),
        ("fs_read_range", {"path": path, "start_line": -50, "end_line": -1}),
        ("fs_grep", {"base": path, "pattern": "line of"}),
        ("fs_patch", {"path": path, "operations": [{"type": "replace", "pattern": "text", "replacement": "b"}]}),
        ("read", {"file_path": path}),
        ("grep", {"path": path, "pattern": "text"}),
    ]
    for _ in range(int(os.environ.get("MCP_AGENT_TEST_LONG", "0")) * 180 + 20):
        for tool, arguments in calls:
            error = (await shell.call(tool, **arguments)).get("error", {})
            assert error.get("code") not in ("INTERNAL_ERROR", "internal_error"), (tool, error)
