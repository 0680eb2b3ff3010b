"""A token with an end: it works until then, and neither a request nor a stream outlives it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.security import auth_tokens
from mcp_agent.security.auth_tokens import Tokens
from tests.support.daemon import Daemon, command
from tests.support.raw import request
from tests.support.waiting import eventually_sync, within


def _set_end(home: Path, seconds: float) -> None:
    file = home / ".local" / "state" / "mcp-agent" / "tokens.json"
    document: dict[str, Any] = json.loads(file.read_text())
    for entry in document["tokens"]:
        entry["expires"] = int(time.time() + seconds)
    file.write_text(json.dumps(document))


def test_a_token_that_has_expired_is_refused_and_says_why(daemon: Daemon) -> None:
    made = daemon.cli("token", "create", "guest", "--expires", "30d")
    assert ", valid until 20" in made.stdout
    key: dict[str, Any] = {"Authorization": f"Bearer {made.stdout.splitlines()[-1]}"}
    eventually_sync(lambda: request(daemon, path="/openapi.json", **key).status, lambda status: status == 200)
    _set_end(daemon.home, -1)
    refused = eventually_sync(lambda: request(daemon, path="/openapi.json", **key), lambda answer: answer.status == 401)
    assert refused.message == "the token has expired"
    listed = daemon.cli("token", "list").stdout
    assert "guest\tthe active profile\tform auto\t" in listed
    assert "\texpired 20" in listed


async def test_a_stream_ends_with_its_token(daemon: Daemon) -> None:
    token = daemon.cli("token", "create", "guest", "--expires", "30d").stdout.splitlines()[-1]
    async with daemon.http(Authorization=f"Bearer {token}") as http, within():
        while (await http.get("/openapi.json")).status_code != 200:
            pass
        # The end of a token is a whole second; it must not be over before the stream is open.
        _set_end(daemon.home, 3)
        async with http.stream("GET", "/events") as stream:
            assert stream.status_code == 200
            async for _ in stream.aiter_bytes():
                pass
    assert time.time() >= _end(daemon.home)


def _end(home: Path) -> int:
    document = json.loads((home / ".local" / "state" / "mcp-agent" / "tokens.json").read_text())
    return int(document["tokens"][0]["expires"])


def test_rotation_gives_the_new_token_as_long_as_the_old_one_had(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    auth_tokens.create(file, "guest", "default", "auto", 3600)
    auth_tokens.create(file, "other", "default", "auto")
    new = auth_tokens.rotate(file, "guest")
    other, guest = auth_tokens.clients(file)
    assert other.expires is None
    assert guest.expires == guest.created + 3600
    tokens = Tokens(tmp_path / "token", file)
    tokens.reload()
    assert tokens.identify(new.encode()) is not None
    assert tokens.next_expiry() == guest.expires


@pytest.mark.parametrize("text", ["", "0d", "30", "30x", "-1d", "tomorrow"])
def test_a_time_that_cannot_be_read_is_one_sentence(home: Path, text: str) -> None:
    done = command(home, "token", "create", "guest", f"--expires={text}")
    assert (done.returncode, done.stderr) == (2, f"mcp-agent: --expires takes 30m, 12h, 30d or 8w, not {text!r}\n")
