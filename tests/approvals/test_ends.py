"""What becomes of a call that waits: decided late, by a rule, by nobody, for another client, or at an end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, get_args

import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

from registry.edits import EDITS
from tests.approvals.asking import Era, decide, pending, streamed_command
from tests.support.daemon import Daemon, running
from tests.support.peers import WIRES, official
from tests.support.waiting import eventually

_ASKING = {"profiles": [{"id": "default", "categories": [{"id": "shell", "ask": True}]}]}


@contextlib.contextmanager
def _daemon(home: Path, *flags: str, document: Any = _ASKING) -> Iterator[Daemon]:
    (home / "tools.json").write_text(json.dumps(document))
    with running(home, *flags) as daemon:
        yield daemon


async def _call(http: httpx2.AsyncClient, command: str, *, request_id: int = 1, **params: Any) -> dict[str, Any]:
    message = {
        "jsonrpc": "2.0",
        "id": request_id,
        "method": "tools/call",
        "params": {"name": "shell_exec", "arguments": {"command": command}, **params},
    }
    found: dict[str, Any] = (await http.post("/rpc", json=message)).json()["result"]["structuredContent"]
    return found


def _audited(daemon: Daemon, event: str) -> list[dict[str, Any]]:
    lines = (daemon.home / ".local/state/mcp-agent/audit/audit.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line.get("event") == event]


async def test_a_call_that_nobody_answers_is_told_to_come_again_and_the_fourth_time_to_stop(home: Path) -> None:
    with _daemon(home, "--approval-hold-s", "1") as daemon:
        async with daemon.http() as http:
            answers = [await _call(http, "echo x") for _ in range(4)]
            ids = {each["approval"]["id"] for each in answers}
            assert len(ids) == 1
            assert [each["error"]["code"] for each in answers] == ["APPROVAL_PENDING"] * 4
            assert ["exactly the same arguments" in each["error"]["hint"] for each in answers] == [
                True,
                True,
                True,
                False,
            ]
            assert answers[3]["error"]["hint"].startswith("stop calling it")
            # Decided while nobody waits: the next call takes it, and only one does.
            assert (await decide(daemon, ids.pop(), "once"))["status"] == 200
            assert (await _call(http, "echo x"))["stdout"] == "x\n"
            assert (await _call(http, "echo x"))["error"]["code"] == "APPROVAL_PENDING"


async def test_an_unanswered_call_is_a_denial_that_says_so(home: Path) -> None:
    with _daemon(home, "--approval-s", "5", "--approval-hold-s", "60") as daemon:
        async with daemon.http() as http:
            answer = await _call(http, "echo x")
        assert answer["error"]["code"] == "DENIED"
        assert "nobody answered in time" in answer["error"]["message"]
        assert [line["why"] for line in _audited(daemon, "approval_expired")] == ["expired"]


async def test_a_stateless_client_is_sent_round_and_its_model_sees_one_call(home: Path) -> None:
    with _daemon(home, "--approval-hold-s", "3") as daemon:
        async with (
            daemon.http() as http,
            official(streamable_http_client(f"{daemon.url}/mcp", http_client=http), "2026-07-28") as peer,
        ):
            call = asyncio.create_task(peer.call("shell_exec", command="echo after rounds"))
            # Two lines of the audit log, and the model still waits for its one call.
            await eventually(
                lambda: [line for line in _lines(daemon) if line.get("outcome") == "APPROVAL_PENDING"],
                lambda lines: len(lines) >= 2,
            )
            async with daemon.http() as owner:
                (request,) = (await owner.get("/api/approvals")).json()["approvals"]
            await decide(daemon, request["id"], "once")
            answer = await call
    assert answer.object["stdout"] == "after rounds\n"


def _lines(daemon: Daemon) -> list[dict[str, Any]]:
    text = (daemon.home / ".local/state/mcp-agent/audit/audit.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


async def test_the_same_call_sent_twice_is_one_question_and_one_run(home: Path, tmp_path: Path) -> None:
    mark = tmp_path / "runs"
    with _daemon(home, "--approval-hold-s", "60") as daemon:
        async with daemon.http() as http:
            calls = [asyncio.create_task(_call(http, f"echo run >> {mark}; cat {mark}")) for _ in range(3)]
            (request,) = await pending(daemon)
            await eventually(lambda: _waiting(daemon, 3))
            await decide(daemon, request["id"], "once")
            answers = [await call for call in calls]
    assert [each["stdout"] for each in answers] == ["run\n"] * 3
    assert mark.read_text() == "run\n"


async def _waiting(daemon: Daemon, count: int) -> bool:
    """Whether so many requests are under way at the daemon, beside this one."""
    async with daemon.http() as http:
        found = (await http.get("/api/approvals")).json()["approvals"]
    return bool(found) and found[0]["calls"] == count


async def test_two_clients_with_the_same_call_are_two_questions(home: Path, tmp_path: Path) -> None:
    with _daemon(home, "--approval-hold-s", "60") as daemon:
        assert daemon.cli("token", "create", "other").returncode == 0
        token = json.loads(daemon.cli("token", "create", "third", "--json").stdout)["token"]
        async with (
            daemon.http() as one,
            httpx2.AsyncClient(base_url=daemon.url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as other,
        ):
            calls = [asyncio.create_task(_call(http, f"echo x >> {tmp_path}/f")) for http in (one, other)]
            requests = await pending(daemon, 2)
            assert {each["client"] for each in requests} == {"owner", "third"}
            for each in requests:
                await decide(daemon, each["id"], "once" if each["client"] == "owner" else "deny")
            answers = [await call for call in calls]
            # The answers are the owner's to give, and no client's.
            assert (await other.get("/api/approvals")).status_code == 403
    assert "error" not in answers[0]
    assert answers[1]["error"]["code"] == "DENIED"


async def test_the_sixth_call_of_a_client_is_refused(home: Path) -> None:
    with _daemon(home, "--approval-hold-s", "60") as daemon:
        async with daemon.http() as http:
            calls = [asyncio.create_task(_call(http, f"echo {number}")) for number in range(5)]
            requests = await pending(daemon, 5)
            assert (await _call(http, "echo more"))["error"]["code"] == "BUSY"
            for each in requests:
                await decide(daemon, each["id"], "deny")
            assert {(await call)["error"]["code"] for call in calls} == {"DENIED"}


async def test_an_hour_is_for_this_client_and_this_rule(home: Path) -> None:
    document = {
        "profiles": [
            {
                "id": "default",
                "ask": {
                    "commands": [
                        {"id": "one", "pattern": "echo one", "reason": "first"},
                        {"id": "two", "pattern": "echo two", "reason": "second"},
                    ]
                },
            }
        ]
    }
    with _daemon(home, "--approval-hold-s", "60", document=document) as daemon:
        async with daemon.http() as http:
            calls = [asyncio.create_task(_call(http, command)) for command in ("echo one a", "echo one b")]
            requests = await pending(daemon, 2)
            await decide(daemon, requests[0]["id"], "hour")
            # The other one that waits is of the same rule.
            assert sorted([(await call)["stdout"] for call in calls]) == ["one a\n", "one b\n"]
            assert (await _call(http, "echo one c"))["stdout"] == "one c\n"
            asks = asyncio.create_task(_call(http, "echo two"))
            (request,) = await pending(daemon)
            assert request["reasons"][0]["rule"] == "two"
            await decide(daemon, request["id"], "deny")
            await asks


@pytest.mark.parametrize(
    ("flags", "code"), [(("disable", "shell"), "TOOL_DISABLED"), (("enable", "shell"), None)], ids=["off", "on"]
)
async def test_a_switch_ends_what_waits(home: Path, flags: tuple[str, ...], code: str | None) -> None:
    with _daemon(home, "--approval-hold-s", "60") as daemon:
        async with daemon.http() as http:
            call = asyncio.create_task(_call(http, "echo x"))
            await pending(daemon)
            assert (await asyncio.to_thread(daemon.cli, *flags)).returncode == 0
            answer = await call
            assert answer.get("error", {}).get("code") == code
            assert await pending(daemon, 0) == []


async def test_a_new_deny_rule_refuses_what_waits(home: Path) -> None:
    with _daemon(home, "--approval-hold-s", "60") as daemon:
        async with daemon.http() as http:
            call = asyncio.create_task(_call(http, "halt"))
            await pending(daemon)
            rule = {"id": "no-halt", "pattern": "halt", "reason": "the machine stays on"}
            daemon.save({"profiles": [{**_ASKING["profiles"][0], "deny": {"commands": [rule]}}]})
            answer = await call
    assert answer["error"]["rule"] == "no-halt"


async def test_a_revoked_token_ends_what_waits(home: Path) -> None:
    with _daemon(home, "--approval-hold-s", "60") as daemon:
        token = json.loads(daemon.cli("token", "create", "guest", "--json").stdout)["token"]
        async with httpx2.AsyncClient(
            base_url=daemon.url, headers={"Authorization": f"Bearer {token}"}, timeout=60
        ) as http:
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
            params = {"name": "shell_exec", "arguments": {"command": "echo x"}}
            call = asyncio.create_task(http.post("/rpc", json={**message, "params": params}))
            await pending(daemon)
            assert (await asyncio.to_thread(daemon.cli, "token", "revoke", "guest")).returncode == 0
            assert (await call).status_code == 401
            assert await pending(daemon, 0) == []


async def test_the_stop_of_the_daemon_ends_what_waits(home: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    with _daemon(home, "--approval-hold-s", "60") as daemon:
        async with daemon.http() as http:
            call = asyncio.create_task(_call(http, f"touch {mark}"))
            await pending(daemon)
            daemon.process.send_signal(signal.SIGTERM)
            answer = await call
            assert await asyncio.to_thread(daemon.process.wait, 20) == 0
    assert "the daemon stops" in answer["error"]["message"]
    assert not mark.exists()


@pytest.mark.parametrize("era", get_args(Era))
async def test_a_call_that_the_stop_ends_is_told_so_on_its_stream(home: Path, era: Era) -> None:
    with _daemon(home, "--approval-hold-s", "60") as daemon:
        async with streamed_command(daemon, era, "echo x") as messages:
            assert (await anext(messages))["method"] == "notifications/progress"
            daemon.process.send_signal(signal.SIGTERM)
            last = [message async for message in messages][-1]
    assert "the daemon stops" in last["result"]["structuredContent"]["error"]["message"]


async def test_the_end_of_a_session_ends_what_waits(home: Path) -> None:
    with _daemon(home, "--approval-hold-s", "60") as daemon:
        async with _session(daemon) as http:
            message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
            params = {"name": "shell_exec", "arguments": {"command": "echo x"}}
            call = asyncio.create_task(http.post("/mcp", json={**message, "params": params}))
            await pending(daemon)
            assert (await http.delete("/mcp")).status_code == 204
            assert await pending(daemon, 0) == []
            call.cancel()
        assert [line["why"] for line in _audited(daemon, "approval_ended")] == ["client"]


@contextlib.asynccontextmanager
async def _session(daemon: Daemon) -> AsyncIterator[httpx2.AsyncClient]:
    async with daemon.http(Accept="application/json, text/event-stream") as http:
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        opened = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        http.headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
        yield http


async def test_a_client_that_has_gone_gets_nothing_run(home: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    with _daemon(home, "--approval-hold-s", "60") as daemon:
        async with daemon.http() as http:
            call = asyncio.create_task(_call(http, f"touch {mark}"))
            (request,) = await pending(daemon)
            call.cancel()
            async with daemon.http() as owner:

                async def is_alone() -> bool:
                    return not (await owner.get("/api/approvals")).json()["approvals"][0]["waiting"]

                await eventually(is_alone)
            await decide(daemon, request["id"], "once")
            assert not mark.exists()
            # It comes back within five minutes: the answer is there.
            assert "error" not in await _call(http, f"touch {mark}")
            assert mark.exists()


async def test_a_process_of_a_session_may_not_answer(home: Path) -> None:
    document = {"profiles": [{"id": "default", "effects": {"write": "ask"}}]}
    with _daemon(home, "--approval-hold-s", "60", document=document) as daemon:
        async with daemon.http() as http, WIRES["rpc"](daemon) as peer:
            call = asyncio.create_task(peer.call("fs_write", path=str(home / "x"), content="y"))
            (request,) = await pending(daemon)
            url = f"{daemon.url}/api/approvals/{request['id']}"
            curl = f"curl -s -H 'Authorization: Bearer {daemon.token}' -H 'Content-Type: application/json'"
            for command in (
                f'{curl} -d \'{{"decision": "once"}}\' {url}',
                f'setsid -w {curl} -d \'{{"decision": "once"}}\' {url}',
            ):
                answer = json.loads((await _call(http, command))["stdout"])
                assert answer["error"]["code"] == "FORBIDDEN"
            assert not (home / "x").exists()
            await decide(daemon, request["id"], "once")
            await call
    assert (home / "x").read_text() == "y"


async def test_no_switch_is_changed_with_the_token_of_a_client(home: Path) -> None:
    document = {"profiles": [{"id": "default", "effects": {"write": "ask"}}]}
    with _daemon(home, document=document) as daemon:
        token = json.loads(daemon.cli("token", "create", "guest", "--json").stdout)["token"]
        async with daemon.http() as owner, daemon.http(Authorization=f"Bearer {token}") as guest:
            for name in EDITS:
                assert (await guest.post(f"/api/{name}", json={})).status_code == 403, name
            off = {"profile": "default", "effects": ["write"], "enabled": True, "ask": False}
            assert (await guest.post("/api/switch", json=off)).status_code == 403
            # Nor by a process that a call has started.
            curl = f"curl -s -H 'Authorization: Bearer {token}' -H 'Content-Type: application/json'"
            answer = await _call(owner, f"{curl} -d '{json.dumps(off)}' {daemon.url}/api/switch")
            assert json.loads(answer["stdout"])["error"]["message"] == "only the owner's token may use /api"
            assert json.loads(daemon.tools_json.read_text()) == document
            # The same, sent by the owner, is a change.
            assert (await owner.post("/api/switch", json=off)).status_code == 200
            assert json.loads(daemon.tools_json.read_text()) != document


async def test_a_machine_where_nobody_is_refuses_at_once(home: Path) -> None:
    alone = {"profiles": [{**_ASKING["profiles"][0], "ask": {"alone": "deny"}}]}
    with _daemon(home, document=alone) as daemon:
        async with daemon.http() as http:
            answer = await _call(http, "echo x")
    assert answer["error"]["code"] == "DENIED"
    assert "nobody is there" in answer["error"]["message"]


async def test_a_client_with_a_daemon_of_its_own_on_a_pipe_is_refused_at_once(home: Path) -> None:
    with _daemon(home) as daemon:
        async with WIRES["stdio-handshake"](daemon) as peer:
            answer = await peer.call("shell_exec", command="echo x")
    assert answer.object["error"]["code"] == "DENIED"
    assert "nobody is there" in answer.object["error"]["message"]


async def test_who_asked_and_who_decided_is_on_record(home: Path) -> None:
    with _daemon(home, "--approval-hold-s", "60") as daemon:
        async with daemon.http() as http:
            call = asyncio.create_task(_call(http, "echo x"))
            (request,) = await pending(daemon)
            done = await asyncio.to_thread(daemon.cli, "approvals", "approve", request["id"])
            assert done.returncode == 0, done.stderr
            assert (await call)["stdout"] == "x\n"
        (asked,), (decided,) = _audited(daemon, "approval_asked"), _audited(daemon, "approval_decided")
    assert (asked["client"], asked["tool"], asked["rule"]) == ("owner", "shell_exec", "category:shell")
    assert (decided["approval"], decided["decision"], decided["by"]) == (request["id"], "once", "command")
