"""The life of a grant: its tokens follow each other, its streams live on, and all of it ends at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import stat
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcp_agent.security.wrong_logins import MOST_WRONG
from tests.support.daemon import Daemon
from tests.support.oauth import PAGE, OAuthPeer, public_daemon
from tests.support.waiting import eventually, within

# /events is for who may run commands.
_ALL = {"profile": "default"}
_HANDSHAKE: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "tester", "version": "1"},
}


def _file(daemon: Daemon) -> Path:
    return daemon.home / ".local" / "state" / "mcp-agent" / "oauth.json"


def _edit(daemon: Daemon, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the last grant of the file; the daemon follows it."""
    document = json.loads(_file(daemon).read_text())
    change(document["grants"][-1])
    fresh = _file(daemon).with_name("oauth.json.fresh")
    fresh.write_text(json.dumps(document))
    fresh.chmod(0o600)
    fresh.replace(_file(daemon))


@contextlib.asynccontextmanager
async def _streams(peer: OAuthPeer, token: str) -> AsyncIterator[asyncio.Task[None]]:
    """A task that ends when every stream that this token opened has ended."""
    session = (await peer.call(token, "initialize", **_HANDSHAKE)).headers["mcp-session-id"]
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}

    async def read(stream: httpx2.Response) -> None:
        assert stream.status_code == 200, stream.request.url
        with contextlib.suppress(httpx2.HTTPError):
            async for _ in stream.aiter_bytes():
                pass

    async with contextlib.AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(peer.http.stream("GET", path, headers=headers | more))
            for path, more in (("/mcp", {"Mcp-Session-Id": session}), ("/sse", {}), ("/events", {}))
        ]
        async with asyncio.TaskGroup() as tasks:
            reading = [tasks.create_task(read(each)) for each in opened]

            async def all_ended() -> None:
                await asyncio.gather(*reading)

            task = tasks.create_task(all_ended())
            yield task
            for each in (*reading, task):
                each.cancel()


async def test_tokens_follow_each_other_and_end_no_stream(peer: OAuthPeer) -> None:
    client_id, first = await peer.granted(resource=None, given=_ALL)
    async with _streams(peer, first["access_token"]) as streams:
        second = (await peer.refresh(client_id, first["refresh_token"])).json()
        assert second["refresh_token"] != first["refresh_token"]
        for tokens in (first, second):
            assert (await peer.call(tokens["access_token"])).status_code == 200
        assert not streams.done()


async def test_an_answer_that_was_lost_can_be_had_again(peer: OAuthPeer) -> None:
    """And so can two workers of one client, who refresh at the same time."""
    client_id, first = await peer.granted()
    lost = (await peer.refresh(client_id, first["refresh_token"])).json()
    again = (await peer.refresh(client_id, first["refresh_token"])).json()
    for tokens in (lost, again):
        assert (await peer.call(tokens["access_token"])).status_code == 200
    for tokens in (again, lost):
        assert (await peer.refresh(client_id, tokens["refresh_token"])).status_code == 200


async def test_a_stolen_refresh_token_ends_the_grant(home: Path) -> None:
    with public_daemon(home) as daemon:
        async with OAuthPeer(daemon) as peer:
            client_id, first = await peer.granted(resource=None, given=_ALL)
            second = (await peer.refresh(client_id, first["refresh_token"])).json()
            third = (await peer.refresh(client_id, second["refresh_token"])).json()
            async with _streams(peer, third["access_token"]) as streams, within(2):
                stolen = await peer.refresh(client_id, first["refresh_token"])
                assert (stolen.status_code, stolen.json()["error"]) == (400, "invalid_grant")
                await streams
            assert (await peer.call(third["access_token"])).status_code == 401
            assert (await peer.refresh(client_id, third["refresh_token"])).status_code == 400
            # The same for the one before, once its minute is over.
            client_id, first = await peer.granted()
            await peer.refresh(client_id, first["refresh_token"])
            _edit(daemon, lambda grant: grant.update(rotated=grant["rotated"] - 61))
            assert (await peer.refresh(client_id, first["refresh_token"])).status_code == 400
            assert json.loads(_file(daemon).read_text())["grants"] == []
            ended = [each for each in _audit(daemon) if each.get("event") == "oauth_ended"]
            assert [each["reason"] for each in ended] == ["refresh_reused", "refresh_reused"]


def _audit(daemon: Daemon) -> list[dict[str, Any]]:
    lines = (_file(daemon).parent / "audit" / "audit.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


async def test_a_refresh_token_is_for_its_client_and_resource(peer: OAuthPeer) -> None:
    client_id, tokens = await peer.granted()
    other = await peer.register("http://localhost/callback", client_name="Other")
    assert (await peer.refresh(other, tokens["refresh_token"])).json()["error"] == "invalid_grant"
    form = {"grant_type": "refresh_token", "client_id": client_id, "refresh_token": tokens["refresh_token"]}
    wrong = await peer.http.post("/token", data={**form, "resource": f"{peer.daemon.url}/sse"})
    assert wrong.json()["error"] == "invalid_target"
    right = await peer.http.post("/token", data={**form, "resource": f"{peer.daemon.url}/mcp/"})
    assert right.status_code == 200


@pytest.mark.parametrize("by", ["the client", "the page", "a command", "the second use of its code"])
async def test_what_is_revoked_ends_within_a_second(public: Daemon, by: str) -> None:
    async with OAuthPeer(public) as peer:
        client_id = await peer.register(client_name=by)
        code = await peer.code(client_id, resource=None, given=_ALL)
        tokens = (await peer.exchange(client_id, code)).json()
        name = next(each["name"] for each in (await _listed(peer)) if each["program"] == by)
        async with _streams(peer, tokens["access_token"]) as streams:
            if by == "the client":
                # Whoever has the token and says that he is another is told nothing, and nothing ends.
                form = {"token": tokens["refresh_token"], "client_id": "nobody"}
                assert (await peer.http.post("/revoke", data=form)).status_code == 200
                assert not streams.done()
                form = {"token": tokens["refresh_token"], "client_id": client_id}
                assert (await peer.http.post("/revoke", data=form)).status_code == 200
            elif by == "the page":
                done = await peer.http.post(f"/ui/api/tokens/{name}/revoke", json={}, headers=PAGE)
                assert done.status_code == 200
            elif by == "a command":
                assert public.cli("token", "revoke", name).returncode == 0
            else:
                await peer.exchange(client_id, code)
            async with within(1):
                await streams
        assert (await peer.call(tokens["access_token"])).status_code == 401
        assert (await peer.refresh(client_id, tokens["refresh_token"])).status_code == 400
        assert name not in [each["name"] for each in await _listed(peer)]


async def _listed(peer: OAuthPeer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await peer.http.get("/ui/api/tokens", headers=PAGE)).json()["tokens"]
    return found


async def test_neither_token_nor_stream_outlives_its_time(home: Path) -> None:
    with public_daemon(home) as daemon:
        async with OAuthPeer(daemon) as peer:
            client_id, tokens = await peer.granted(resource=None, given=_ALL)
            old = tokens["access_token"]
            _edit(daemon, lambda grant: grant.update(access=dict.fromkeys(grant["access"], int(time.time()) - 1)))
            answer = await eventually(
                lambda: peer.call(tokens["access_token"]), lambda answer: answer.status_code == 401
            )
            assert "has expired" in answer.text
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]
            # However often it comes: its client is to ask for a new one, and not to wait.
            by_name = {"Host": "box.example"}
            for _ in range(MOST_WRONG + 1):
                tried = await peer.http.get("/mcp", headers={**by_name, "Authorization": f"Bearer {old}"})
                assert tried.status_code == 401
            # An access token has an hour, and the grant goes on.
            tokens = (await peer.refresh(client_id, tokens["refresh_token"])).json()
            async with _streams(peer, tokens["access_token"]) as streams, within():
                _edit(daemon, lambda grant: grant.update(expires=int(time.time()) + 2))
                await streams
            assert (await peer.call(tokens["access_token"])).status_code == 401
            assert (await peer.refresh(client_id, tokens["refresh_token"])).status_code == 400


async def test_tokens_are_on_disk_as_hashes_only_and_outlive_a_restart(home: Path) -> None:
    with public_daemon(home) as daemon:
        async with OAuthPeer(daemon) as peer:
            client_id, tokens = await peer.granted(resource=None, given=_ALL)
            code = await peer.code(client_id)
        port = daemon.url.rpartition(":")[2]
    secrets = [code, tokens["access_token"], tokens["refresh_token"]]
    for path in home.rglob("*"):
        if path.is_file():
            text = path.read_bytes()
            assert not any(each.encode() in text for each in secrets), path
    assert stat.S_IMODE(_file(daemon).stat().st_mode) == 0o600
    with public_daemon(home, "--port", port) as daemon:
        async with OAuthPeer(daemon) as peer:
            assert (await peer.call(tokens["access_token"])).status_code == 200
            assert (await peer.refresh(client_id, tokens["refresh_token"])).status_code == 200


@pytest.mark.parametrize(
    ("resource", "inside", "outside"),
    [
        ("/mcp/read-only", ["/mcp/read-only"], ["/mcp", "/mcp/lean", "/rpc", "/mcp/read-only-not"]),
        ("/mcp", ["/mcp", "/mcp/lean"], ["/rpc", "/", "/mcpx"]),
        ("", ["/mcp", "/rpc", "/"], []),
    ],
)
async def test_a_token_is_good_for_its_resource_alone(
    peer: OAuthPeer, resource: str, inside: list[str], outside: list[str]
) -> None:
    _, tokens = await peer.granted(resource=f"{peer.daemon.url}{resource}", given={"profile": "default"})
    for path in inside:
        answer = await peer.call(tokens["access_token"], path=path)
        assert answer.status_code == 200, path
    for path in outside:
        answer = await peer.call(tokens["access_token"], path=path)
        assert (answer.status_code, 'error="invalid_token"' in answer.headers["www-authenticate"]) == (401, True), path


async def test_a_profile_in_the_address_never_widens_the_grant(peer: OAuthPeer) -> None:
    _, tokens = await peer.granted()
    for path in ("/mcp", "/mcp/default", "/mcp/lean"):
        answer = await peer.call(
            tokens["access_token"], "tools/call", path, name="shell_exec", arguments={"command": "id"}
        )
        assert "TOOL_DISABLED" in answer.text, path


async def test_a_switch_holds_for_a_grant_at_once(home: Path) -> None:
    with public_daemon(home) as daemon:
        async with OAuthPeer(daemon) as peer:
            _, tokens = await peer.granted()
            assert "fs_list" in (await peer.call(tokens["access_token"])).text
            assert daemon.cli("disable", "fs_list", "--profile", "read-only").returncode == 0
            assert '"fs_list"' not in (await peer.call(tokens["access_token"])).text
            # Its profile is in use, so it is not taken away under it.
            assert daemon.cli("profile", "copy", "read-only", "mine").returncode == 0
            await peer.granted(given={"profile": "mine"})
            removed = daemon.cli("profile", "remove", "mine")
            assert removed.returncode == 1
            assert "@oauth" in removed.stderr


async def test_grants_have_names_of_their_own(peer: OAuthPeer) -> None:
    """Only a name that somebody vouches for says who it is; the others say where the answer went."""
    claimed = await peer.register("https://app.example/callback", client_name="Claude")
    query = peer.query(claimed, redirect_uri="https://app.example/callback")
    assert (await peer.ask(**query)).json()["voucher"] is None
    for _ in range(2):
        code = (await peer.answer(query))["code"]
        await peer.exchange(claimed, code, redirect_uri="https://app.example/callback")
    names = [each["name"] for each in await _listed(peer) if each["program"] == "Claude"]
    assert names == ["app.example@oauth", "app.example-2@oauth"]
    created = peer.daemon.cli("token", "create", "--name", "app.example@oauth")
    assert created.returncode != 0
