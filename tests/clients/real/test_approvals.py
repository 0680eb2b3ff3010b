"""Each client with a call that waits for the owner: it bears the wait, and runs the call once or is told why not."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.real.coding_client import CodingClient, coding_client
from tests.support.model_server import Step
from tests.support.programs import CODING_CLIENTS
from tests.support.waiting import eventually_sync

pytestmark = pytest.mark.timeout(600)

# After 45 s its model is told that the call waits, and calls again. Claude Code sends the call again by itself.
_CALLS_AGAIN = ("cline",)


@pytest.fixture(params=list(CODING_CLIENTS))
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CodingClient]:
    home = tmp_path / "home"
    home.mkdir()
    with coding_client(request.param, home) as connected:
        connected.connect()
        assert connected.daemon.cli("ask", "shell").returncode == 0
        yield connected


def _owner(client: CodingClient, after_s: float, *answer: str) -> threading.Thread:
    """Answers the first call that waits, so long after it began."""

    def decide() -> None:
        def waiting() -> list[dict[str, str]]:
            found: list[dict[str, str]] = json.loads(client.daemon.cli("approvals", "list", "--json").stdout or "[]")
            return found

        (request,) = eventually_sync(waiting, within_s=100)
        time.sleep(after_s)
        done = client.daemon.cli("approvals", answer[0], request["id"], *answer[1:])
        assert done.returncode == 0, done.stderr

    owner = threading.Thread(target=decide)
    owner.start()
    return owner


@pytest.mark.parametrize("after_s", [5, 70])
def test_a_call_runs_once_when_the_owner_approves_it(client: CodingClient, after_s: int) -> None:
    mark = client.home / "runs"
    call = Step("shell_exec", {"command": f"echo run >> {mark}; echo one $((20 + 1))"})
    calls = [call, call] if after_s > 45 and client.name in _CALLS_AGAIN else [call]
    client.model.play([*calls, Step(text="The end.")])
    owner = _owner(client, after_s, "approve")
    printed = client.run()
    owner.join()
    results = [seen.results[-1] for seen in client.model.seen[1:]]
    print(f"RESULTS {client.name} {after_s} {results}\nPRINTED {printed[-1500:]}")
    assert "one 21" in results[-1], (results, printed)
    assert mark.read_text() == "run\n"


def test_a_denied_call_says_why(client: CodingClient) -> None:
    mark = client.home / "runs"
    client.model.play([Step("shell_exec", {"command": f"echo run >> {mark}"}), Step(text="The end.")])
    owner = _owner(client, 1, "deny", "--reason", "use the test database")
    printed = client.run()
    owner.join()
    (result,) = [seen.results[-1] for seen in client.model.seen[1:]]
    print(f"DENIED {client.name} {result}\nPRINTED {printed[-1500:]}")
    assert "use the test database" in result
    assert not mark.exists()
