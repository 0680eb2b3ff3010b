"""Each client with a call that waits for the owner: it bears the wait, and runs the call once or is told why not."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.clients.real.coding_client import PATIENCE_S, CodingClient, coding_client
from tests.support.model_server import Step
from tests.support.programs import CODING_CLIENTS
from tests.support.waiting import eventually_sync

pytestmark = pytest.mark.timeout(600)

_CLIENTS = list(CODING_CLIENTS)
# How long after the call began the owner approves it, and the clients whose model calls more than once until then: so
# often it is told that the call waits, and calls again. Claude Code sends the call again by itself.
_ASKED_AGAIN = {70: {"cline": 1}, 235: {"copilot-cli": 1}}
_NAMES_ITS_CHAT = ("claude-code", "codex", "copilot-cli")
_LONG = pytest.mark.skipif(not os.environ.get("MCP_AGENT_TEST_LONG"), reason="long: MCP_AGENT_TEST_LONG=1")


@pytest.fixture(params=_CLIENTS)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CodingClient]:
    with _asking(request.param, tmp_path) as connected:
        yield connected


@contextlib.contextmanager
def _asking(name: str, folder: Path, *flags: str) -> Iterator[CodingClient]:
    home = folder / "home"
    home.mkdir()
    with coding_client(name, home, *flags) as connected:
        connected.connect()
        assert connected.daemon.cli("ask", "shell").returncode == 0
        yield connected


def _waiting(client: CodingClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(client.daemon.cli("approvals", "list", "--json").stdout or "[]")
    return found


def _answer(client: CodingClient, request: dict[str, Any], *answer: str) -> None:
    done = client.daemon.cli("approvals", answer[0], request["id"], *answer[1:])
    assert done.returncode == 0, done.stderr


def _owner(client: CodingClient, after_s: float, *answer: str) -> threading.Thread:
    """Answers the first call that waits, so long after it began."""

    def decide() -> None:
        (request,) = eventually_sync(lambda: _waiting(client), within_s=100)
        time.sleep(after_s)
        _answer(client, request, *answer)

    owner = threading.Thread(target=decide)
    owner.start()
    return owner


def _run(client: CodingClient, within_s: float = PATIENCE_S) -> tuple[str, list[str]]:
    """What it printed, and the results of which its model was told."""
    printed = client.run(within_s)
    results = [seen.results[-1] for seen in client.model.seen[1:]]
    print(f"{client.name}: {results}\nPRINTED {printed[-1500:]}")
    return printed, results


@pytest.mark.parametrize("after_s", [5, 70, pytest.param(235, marks=_LONG)])
def test_a_call_runs_once_when_the_owner_approves_it(client: CodingClient, after_s: int) -> None:
    if (client.name, after_s) == ("cline", 235):
        pytest.skip("after three minutes its model is told to stop, and to tell the user")
    mark = client.home / "runs"
    call = Step("shell_exec", {"command": f"echo run >> {mark}; echo one $((20 + 1))"})
    told = _ASKED_AGAIN.get(after_s, {}).get(client.name, 0)
    client.model.play([*[call] * (told + 1), Step(text="The end.")])
    owner = _owner(client, after_s, "approve")
    printed, results = _run(client, after_s + PATIENCE_S)
    owner.join()
    assert "one 21" in results[-1], (results, printed)
    assert ["APPROVAL_PENDING" in each for each in results] == [True] * told + [False]
    assert mark.read_text() == "run\n"


def test_a_denied_call_says_why(client: CodingClient) -> None:
    mark = client.home / "runs"
    client.model.play([Step("shell_exec", {"command": f"echo run >> {mark}"}), Step(text="The end.")])
    owner = _owner(client, 1, "deny", "--reason", "use the test database")
    _, (result,) = _run(client)
    owner.join()
    assert "use the test database" in result
    assert not mark.exists()


@pytest.mark.parametrize("name", _CLIENTS)
def test_a_call_that_nobody_answers_in_time_says_so(name: str, tmp_path: Path) -> None:
    with _asking(name, tmp_path, "--approval-s", "10") as client:
        mark = client.home / "runs"
        client.model.play([Step("shell_exec", {"command": f"echo run >> {mark}"}), Step(text="The end.")])
        _, (result,) = _run(client)
        assert "nobody answered in time" in result
        assert not mark.exists()


def test_nothing_runs_for_a_client_that_has_gone(client: CodingClient) -> None:
    mark = client.home / "runs"
    client.model.play([Step("shell_exec", {"command": f"echo run >> {mark}"}), Step(text="The end.")])
    with _held(client) as process:
        (request,) = _waiting(client)
        os.killpg(process.pid, signal.SIGKILL)
        # Its connection is closed, or it is between two rounds of a stateless call and does not send the next one.
        eventually_sync(lambda: _waiting(client), lambda found: not any(each["waiting"] for each in found), within_s=90)
        _answer(client, request, "approve")
    assert _waiting(client) == []
    assert not mark.exists()


def test_a_call_that_waits_survives_no_restart_and_the_next_one_asks_anew(client: CodingClient) -> None:
    mark = client.home / "runs"
    call = Step("shell_exec", {"command": f"echo run >> {mark}; echo one $((20 + 1))"})
    is_back = threading.Event()
    # Its model has nothing to say until the daemon is there again.
    again = Step(call.tool, call.arguments, before=lambda: is_back.wait(PATIENCE_S))
    client.model.play([call, again, Step(text="The end.")])
    with _held(client):
        (before,) = _waiting(client)
        client.restart_daemon()
        is_back.set()
        (after,) = eventually_sync(lambda: _waiting(client), within_s=PATIENCE_S)
        assert after["id"] != before["id"]
        assert not mark.exists()
        _answer(client, after, "approve")
        eventually_sync(lambda: any("one 21" in each for each in client.model.seen[-1].results), within_s=PATIENCE_S)
    results = [seen.results[-1] for seen in client.model.seen if seen.results]
    print(f"{client.name}: {results}")
    assert mark.read_text() == "run\n"


@contextlib.contextmanager
def _held(client: CodingClient) -> Iterator[subprocess.Popen[bytes]]:
    """It, once its call waits. On a busy machine some ask their model too early; they are started again."""
    for _ in range(3):
        with client.started() as process:
            eventually_sync(
                lambda: process.poll() is not None or bool(_waiting(client)),
                within_s=PATIENCE_S,
            )
            if process.poll() is None:
                yield process
                return
    raise AssertionError(f"{client.name} has called nothing")


def test_the_same_call_of_two_at_once_is_a_question_for_each_chat(client: CodingClient) -> None:
    """Two of one program in one folder, with one token, are one caller, where they do not say which chat it is."""
    questions = 2 if client.name in _NAMES_ITS_CHAT else 1
    mark = client.home / "runs"
    call = Step("shell_exec", {"command": f"echo run >> {mark}; echo one $((20 + 1))"})
    client.model.play([call, call, Step(text="The end."), Step(text="The end.")])
    with _held(client) as one, client.started() as other, ThreadPoolExecutor() as readers:
        printed = [readers.submit(each.communicate) for each in (one, other)]
        requests = eventually_sync(
            lambda: _waiting(client),
            lambda found: sum(each["calls"] for each in found) == 2,
            within_s=PATIENCE_S,
        )
        for request in requests:
            _answer(client, request, "approve")
        for each in printed:
            each.result(PATIENCE_S)
    results = [seen.results[-1] for seen in client.model.seen if seen.results]
    print(f"{client.name}: {results}")
    assert len(results) == 2
    assert all("one 21" in each for each in results)
    assert (len(requests), mark.read_text()) == (questions, "run\n" * questions)
