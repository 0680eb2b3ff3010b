"""Tokens with profiles of their own, made and revoked while the daemon runs."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

from mcp_agent.transports.http import REVOKED
from tests.support.daemon import EVERY_TOOL, Daemon, command, environment, running
from tests.support.peers import official
from tests.support.waiting import PATIENCE_S, eventually


def _create(daemon: Daemon, name: str, *more: str) -> str:
    done = daemon.cli("token", "create", name, *more)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[1]


async def _opens(daemon: Daemon, token: str) -> bool:
    async with httpx2.AsyncClient(base_url=daemon.url, headers={"Authorization": f"Bearer {token}"}) as http:
        return (await http.get("/openapi.json")).status_code == 200


async def test_two_clients_with_two_profiles_see_two_lists_live(daemon: Daemon) -> None:
    names = {"reader": "default", "surfer": "browser-only"}
    made = {name: _create(daemon, name, "--profile", profile) for name, profile in names.items()}
    for token in made.values():
        assert await _opens(daemon, token)
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {made['reader']}"}) as first_http,
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {made['surfer']}"}) as second_http,
        official(streamable_http_client(f"{daemon.url}/mcp", http_client=first_http), "legacy") as first,
        official(streamable_http_client(f"{daemon.url}/mcp", http_client=second_http), "2026-07-28") as second,
    ):
        assert list(await first.tools()) == EVERY_TOOL
        assert list(await second.tools()) == []
        assert (await second.call("fs_read", path="/etc/hostname")).object["error"]["code"] == "TOOL_DISABLED"
        assert daemon.cli("disable", "fs_list", "--profile", "default").returncode == 0
        await first.told()
        assert list(await first.tools()) == [name for name in EVERY_TOOL if name != "fs_list"]


async def test_a_client_with_a_profile_cannot_steer_the_daemon(daemon: Daemon) -> None:
    token = _create(daemon, "guest", "--profile", "read-only")
    assert await _opens(daemon, token)
    async with daemon.http(Authorization=f"Bearer {token}") as http:
        answer = await http.post("/api/switch", json={"target": "fs_read", "enabled": False})
        widened = await http.post("/mcp/default", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert answer.status_code == 403
    assert {tool["annotations"]["readOnlyHint"] for tool in widened.json()["result"]["tools"]} == {True}


async def test_a_token_owns_nothing_of_an_earlier_one_of_its_name(daemon: Daemon) -> None:
    async def status(token: str, path: str) -> int:
        async with daemon.http(Authorization=f"Bearer {token}") as http:
            return (await http.get(path)).status_code

    first = _create(daemon, "laptop")
    assert await _opens(daemon, first)
    async with daemon.http(Authorization=f"Bearer {first}") as http:
        printed = (await http.post("/tools/shell_exec", json={"command": "seq 300000"})).json()
    path = f"/artifacts/{printed['artifactRef'].removeprefix('ax://')}"
    assert await status(first, path) == 200
    rotated = daemon.cli("token", "rotate", "laptop").stdout.splitlines()[1]
    assert await _opens(daemon, rotated)
    assert await status(rotated, path) == 200
    assert daemon.cli("token", "revoke", "laptop").returncode == 0
    second = _create(daemon, "laptop")
    assert await _opens(daemon, second)
    assert await status(second, path) == 404


@pytest.mark.parametrize("wire", ["/mcp", "/sse"])
async def test_revoking_ends_open_streams_and_shuts_the_door(daemon: Daemon, wire: str) -> None:
    token = _create(daemon, "leaver")
    assert await _opens(daemon, token)
    headers = {"Accept": "text/event-stream"} | ({"Mcp-Session-Id": "s" * 30} if wire == "/mcp" else {})
    async with (
        daemon.http(Authorization=f"Bearer {token}") as http,
        http.stream("GET", wire, headers=headers) as stream,
        asyncio.timeout(PATIENCE_S),
    ):
        assert stream.status_code == 200
        assert daemon.cli("token", "revoke", "leaver").stdout == "leaver is revoked: its token is no longer accepted\n"
        try:
            async for _ in stream.aiter_bytes():
                pass
        except httpx2.RemoteProtocolError:
            # The end may be abrupt: there is nothing more to say to a client without a token.
            pass
    assert not await _opens(daemon, token)
    assert await _opens(daemon, daemon.token)


async def test_a_change_of_tokens_is_in_force_when_the_command_answers(daemon: Daemon) -> None:
    token = _create(daemon, "client")
    assert await _opens(daemon, token)
    fresh = daemon.cli("token", "rotate", "client").stdout.splitlines()[1]
    assert (await _opens(daemon, token), await _opens(daemon, fresh)) == (False, True)
    daemon.cli("token", "revoke", "client")
    assert not await _opens(daemon, fresh)


async def test_a_token_without_a_profile_follows_the_active_one(daemon: Daemon) -> None:
    token = _create(daemon, "follower")
    kept = json.loads((daemon.home / ".local/state/mcp-agent/tokens.json").read_text())["tokens"]
    assert kept[0]["profile"] is None
    assert "follower\tthe active profile" in daemon.cli("token", "list").stdout
    for profile, names in (("default", EVERY_TOOL), ("browser-only", [])):
        daemon.cli("profile", "use", profile)
        async with daemon.http(Authorization=f"Bearer {token}") as http:
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            listed = (await http.post("/rpc", json=message)).json()["result"]["tools"]
        assert [tool["name"] for tool in listed] == names


# The command, where the daemon notices the new file before it is asked to read it.
_SLOW_ROTATE = """
import sys, time, urllib.error, urllib.request
from mcp_agent.cli import entry
from mcp_agent.security import auth_tokens

rotate_owner = auth_tokens.rotate_owner

def rotate_and_wait(path):
    old, new = path.read_text().strip(), rotate_owner(path)
    while True:
        request = urllib.request.Request({url!r}, headers={{"Authorization": "Bearer " + old}})
        try:
            urllib.request.urlopen(request).close()
        except urllib.error.HTTPError:
            return new
        time.sleep(0.02)

auth_tokens.rotate_owner = rotate_and_wait
sys.exit(entry.main())
"""


# The command, where the daemon is gone before it is told of the new token.
_LATE_CREATE = """
import os, signal, sys
from mcp_agent.cli import entry
from mcp_agent.security import auth_tokens

create = auth_tokens.create

def create_and_kill(*arguments):
    token = create(*arguments)
    os.kill({pid}, signal.SIGKILL)
    return token

auth_tokens.create = create_and_kill
sys.exit(entry.main())
"""


def _run(script: str, daemon: Daemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, "token", *arguments],
        capture_output=True,
        text=True,
        env=environment(daemon.home),
        timeout=PATIENCE_S,
        check=False,
    )


async def test_a_new_token_is_shown_also_if_the_daemon_cannot_be_told(home: Path) -> None:
    with running(home) as daemon:
        script = _LATE_CREATE.format(pid=daemon.process.pid)
        done = _run(script, daemon, "create", "laptop", "--tools-file", str(daemon.tools_json))
    assert done.returncode != 0
    with running(home) as again:
        assert await _opens(again, done.stdout.splitlines()[1])


async def test_a_daemon_that_has_noticed_the_new_token_by_itself_is_no_failure_of_rotate(home: Path) -> None:
    with running(home) as daemon:
        done = _run(_SLOW_ROTATE.format(url=f"{daemon.url}/api/mounts"), daemon, "rotate")
        assert (done.returncode, done.stderr) == (0, "")
        assert await _opens(daemon, done.stdout.splitlines()[1])


async def test_the_owners_token_is_rotated_where_the_daemon_has_it(home: Path) -> None:
    kept = home / "elsewhere"
    with running(home, "--token-file", str(kept)) as daemon:
        fresh = command(home, "token", "rotate").stdout.splitlines()[1]
        assert kept.read_text().strip() == fresh
        assert (await _opens(daemon, daemon.token), await _opens(daemon, fresh)) == (False, True)


def test_a_token_of_the_environment_is_not_rotated(home: Path) -> None:
    with running(home, extra={"MCP_AGENT_TOKEN": "a-token-of-the-environment"}):
        done = command(home, "token", "rotate", MCP_AGENT_TOKEN="a-token-of-the-environment")
    assert done.returncode == 1
    assert "from MCP_AGENT_TOKEN" in done.stderr


async def test_rotating_the_owners_token_needs_no_restart(daemon: Daemon) -> None:
    fresh = daemon.cli("token", "rotate").stdout.splitlines()[1]
    assert await _opens(daemon, fresh)
    assert not await _opens(daemon, daemon.token)
    assert daemon.cli("token", "show").stdout.strip() == fresh


async def test_the_form_of_a_token_is_used_where_the_connection_says_nothing(daemon: Daemon, tmp_path: Path) -> None:
    token = _create(daemon, "reader", "--form", "text")
    assert await _opens(daemon, token)
    (tmp_path / "a").write_text("x")
    params = {"name": "fs_read", "arguments": {"path": str(tmp_path / "a")}}
    async with daemon.http(Authorization=f"Bearer {token}") as http:
        answer = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    assert "structuredContent" not in answer.json()["result"]


def test_only_a_hash_of_a_clients_token_is_kept(home: Path) -> None:
    done = command(home, "token", "create", "laptop", "--profile", "lean")
    token = done.stdout.splitlines()[1]
    kept = home / ".local/state/mcp-agent/tokens.json"
    assert token not in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert [entry["name"] for entry in json.loads(kept.read_text())["tokens"]] == ["laptop"]
    assert "laptop" in command(home, "token", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("create", "a b"), "cannot name a token"),
        (("create", "owner"), "cannot name a token"),
        (("create", "x", "--profile", "nobody"), "there is no profile 'nobody'"),
        (("revoke", "nobody"), "there is no token 'nobody'"),
        (("rotate", "nobody"), "there is no token 'nobody'"),
        (("revoke", "owner"), "cannot be revoked"),
        (("show", "nobody"), "there is no token 'nobody'"),
        (("show", "laptop"), "only a hash of 'laptop' is kept"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(home: Path, arguments: tuple[str, ...], sentence: str) -> None:
    command(home, "token", "create", "laptop")
    done = command(home, "token", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_damaged_token_file_refuses_to_start(home: Path) -> None:
    state = home / ".local/state/mcp-agent"
    state.mkdir(parents=True, mode=0o700)
    (state / "tokens.json").write_text('{"tokens": [{"name": "x"}]}')
    done = command(home, "serve", "--port", "0")
    assert done.returncode == 2
    assert "is damaged" in done.stderr


@pytest.mark.parametrize("wire", ["/rpc", "/mcp", "/tools/shell_exec", "a batch", "a stream"])
async def test_revoking_a_token_ends_the_calls_under_way_and_their_work(daemon: Daemon, wire: str) -> None:
    """Seen: they went on and answered."""
    token, ran = _create(daemon, "laptop"), daemon.home / "ran"
    arguments = {"command": f"echo $$ > {ran}; exec sleep 60", "timeout_seconds": 60}
    params = {"name": "shell_exec", "arguments": arguments, "_meta": {"progressToken": 1}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    body = arguments if wire.startswith("/tools") else [message] if wire == "a batch" else message
    path = {"a batch": "/rpc", "a stream": "/mcp"}.get(wire, wire)
    accept = "text/event-stream" if wire == "a stream" else "application/json"
    async with daemon.http(Authorization=f"Bearer {token}", Accept=accept) as http:
        call = asyncio.create_task(http.post(path, json=body))
        pid = await eventually(lambda: ran.read_text() if ran.exists() else "", lambda text: text.endswith("\n"))
        assert daemon.cli("token", "revoke", "laptop").returncode == 0
        answer = await call
    if wire == "a stream":
        assert "result" not in answer.text
    else:
        assert (answer.status_code, answer.json()["error"]["message"]) == (401, REVOKED)
    await eventually(lambda: Path(f"/proc/{pid.strip()}").exists(), lambda is_there: not is_there)


async def test_what_the_owner_does_by_command_has_a_line_in_the_audit_log(daemon: Daemon) -> None:
    _create(daemon, "laptop", "--profile", "read-only")
    assert daemon.cli("token", "rotate", "laptop").returncode == 0
    assert daemon.cli("token", "revoke", "laptop").returncode == 0
    written = await daemon.rpc(
        "tools/call", name="fs_write", arguments={"path": str(daemon.home / "x"), "content": "x"}
    )
    undo_id = written["result"]["structuredContent"]["undo_id"]
    assert daemon.cli("undo", undo_id).returncode == 0
    printed = await daemon.rpc("tools/call", name="shell_exec", arguments={"command": "seq 300000"})
    reference = printed["result"]["structuredContent"]["artifactRef"]
    assert daemon.cli("artifacts", "remove", reference).returncode == 0
    started = await daemon.rpc("tools/call", name="shell_start_session", arguments={"command": "sleep 60"})
    session_id = started["result"]["structuredContent"]["session_id"]
    assert daemon.cli("sessions", "stop", session_id).returncode == 0
    lines = [json.loads(line) for line in daemon.cli("audit", "--event", "*", "--json").stdout.splitlines()]
    assert [(line["event"], line["by"]) for line in lines if line["event"] not in ("start", "policy")] == [
        (event, "command")
        for event in (
            "token_created",
            "token_rotated",
            "token_revoked",
            "undo",
            "artifact_removed",
            "session_stopped",
        )
    ]
    assert {line.get(key) for line in lines for key in ("name", "undone", "ref", "session")} == {
        None,
        "laptop",
        undo_id,
        reference,
        session_id,
    }


async def test_a_token_narrowed_since_reads_none_of_its_old_artifacts(daemon: Daemon) -> None:
    """Seen: what a command had printed stayed readable by URI and over HTTP."""
    profile: dict[str, Any] = {"id": "narrow", "categories": []}
    daemon.save({"profiles": [{"id": "default"}, profile]})
    await eventually(lambda: daemon.cli("profile", "list").stdout, lambda shown: "narrow" in shown)
    token = _create(daemon, "laptop", "--profile", "narrow")
    async with daemon.http(Authorization=f"Bearer {token}") as http:
        printed = (
            await http.post("/tools/shell_exec", json={"command": "seq 300000", "max_output_bytes": 1_000})
        ).json()
        reference = printed["artifactRef"]

        async def read() -> list[bool]:
            """Over HTTP, as a resource, by the list of resources, and by two tools."""
            messages = [
                ("resources/read", {"uri": reference}),
                ("resources/list", {}),
                ("tools/call", {"name": "artifact_read", "arguments": {"ref": reference}}),
                ("tools/call", {"name": "fs_read", "arguments": {"path": reference}}),
            ]
            download = await http.get(f"/artifacts/{reference.removeprefix('ax://')}")
            answers = []
            for method, params in messages:
                message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                answers.append((await http.post("/rpc", json=message)).json())
            by_uri, listed, *by_tool = answers
            return [
                download.status_code == 200,
                "result" in by_uri,
                reference in [each["uri"] for each in listed["result"]["resources"]],
                *("content" in each["result"]["structuredContent"] for each in by_tool),
            ]

        assert await read() == [True] * 5
        daemon.save({"profiles": [{"id": "default"}, {**profile, "categories": [{"id": "shell", "enabled": False}]}]})
        # `bash` is a way to the shell, too.
        assert await read() == [True] * 5
        daemon.save({"profiles": [{"id": "default"}, {**profile, "effects": {"execute": False}}]})
        await eventually(read, lambda seen: not any(seen))
    lines = [json.loads(line) for line in daemon.cli("audit", "--event", "artifact_read", "--json").stdout.splitlines()]
    assert {(line["client"], line["transport"]) for line in lines} == {("laptop", "artifacts"), ("laptop", "rpc")}


async def test_no_way_removes_a_profile_that_a_token_has(daemon: Daemon) -> None:
    assert daemon.cli("profile", "create", "mine").returncode == 0
    _create(daemon, "laptop", "--profile", "mine")
    told = "the profile mine is that of the token laptop; revoke the token first: mcp-agent token revoke NAME"
    done = daemon.cli("profile", "remove", "mine")
    assert (done.returncode, done.stderr) == (1, f"mcp-agent: {told}\n")
    async with daemon.http() as http:
        answer = await http.post("/api/profiles/delete", json={"profile": "mine"})
        assert (answer.status_code, answer.json()["error"]["message"]) == (409, told)
        assert daemon.cli("token", "revoke", "laptop").returncode == 0
        assert (await http.post("/api/profiles/delete", json={"profile": "mine"})).status_code == 200
