"""The endpoints of the Tools page, asked as a script asks them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.page.activity import CallSeries
from mcp_agent.storage.audit_log import AuditLog
from mcp_agent.storage.audit_reader import Trail
from tests.support.daemon import Daemon, running
from tests.support.waiting import eventually


async def test_an_unknown_endpoint_is_answered_with_those_that_exist(shared_daemon: Daemon) -> None:
    async with shared_daemon.http() as client:
        missing = await client.get("/api/nothing")
        assert missing.status_code == 404
        assert "GET /api/activity/series" in missing.json()["error"]["hint"]
        wrong = await client.get("/api/switch")
        assert (wrong.status_code, wrong.json()["error"]["hint"]) == (405, "use POST")


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("switch", {"enabled": True}, "target is needed"),
        ("profiles/use", {"profile": 5}, "profiles/use: Expected `str`, got `int` - at `$.profile`"),
        ("profiles/use", {}, "profiles/use: Object missing required field `profile`"),
        ("rules/try", {"profile": "default", "kind": "x", "text": "y"}, "must be paths or commands"),
        ("sessions/none/input", {"input": "x"}, "there is no session"),
        ("sessions/none/resize", {"cols": 1, "rows": 1}, "there is no session"),
        ("call", {"tool": "fs_raed", "arguments": {}}, "Unknown tool"),
        ("call", {"tool": "fs_read"}, "arguments is needed and must be an object"),
        ("try", {"tool": "fs_read", "arguments": {}, "token": "nobody"}, "there is no token 'nobody'"),
        ("changes/none/undo", {}, "there is nothing to undo"),
        ("tokens", {"name": "../x"}, "cannot name a token"),
        ("tokens", {"name": "x", "profile": "nobody"}, "there is no profile 'nobody'"),
        ("tokens", {"name": "x", "form": "xml"}, "must be auto, json or text"),
        ("tokens/nobody/revoke", {}, "there is no token 'nobody'"),
    ],
)
async def test_bad_input_gets_a_sentence(shared_daemon: Daemon, path: str, body: Any, message: str) -> None:
    async with shared_daemon.http() as client:
        answer = await client.post(f"/api/{path}", json=body)
    assert answer.status_code in (400, 404)
    assert message in answer.json()["error"]["message"]


async def test_only_the_owner_may_ask(daemon: Daemon) -> None:
    made = daemon.cli("token", "create", "other")
    token = made.stdout.split()[-1]
    async with daemon.http(Authorization=f"Bearer {token}") as client:
        for path in ("/api/switchboard", "/api/activity", "/ui/api/files/content?path=/etc/hostname", "/ui/api/tokens"):
            assert (await client.get(path)).status_code == 403


async def test_a_token_is_tried_with_its_own_profile_and_form(daemon: Daemon, tmp_path: Path) -> None:
    daemon.cli("token", "create", "reader", "--profile", "read-only", "--form", "text")
    async with daemon.http() as client:
        names = [each["name"] for each in (await client.get("/api/try/tools?token=reader")).json()["tools"]]
        assert "fs_read" in names
        assert "fs_write" not in names
        arguments = {"path": str(tmp_path / "a"), "content": "x"}
        body = {"tool": "fs_write", "arguments": arguments, "token": "reader"}
        answer = (await client.post("/api/try", json=body)).json()
    assert (answer["ok"], answer["code"]) == (False, "TOOL_DISABLED")
    assert not (tmp_path / "a").exists()


async def test_output_is_read_and_searched_from_the_spool(daemon: Daemon) -> None:
    async with daemon.http() as client:
        body = {"command": "printf 'one\\033[31m two\\033[0m\\nTwo\\n'", "pty": False}
        session = (await client.post("/api/sessions", json=body)).json()
        path = f"/api/sessions/{session['id']}"
        await eventually(lambda: client.get(path), lambda answer: not answer.json()["running"])
        found = (await client.get(f"{path}/search", params={"text": "two"})).json()
        assert found == {
            "matches": [{"line": 1, "text": "one two", "at": 4}, {"line": 2, "text": "Two", "at": 0}],
            "total": 2,
        }
        assert (await client.get(f"{path}/search", params={"text": "Two"})).json()["total"] == 1
        output = (await client.get(f"{path}/output", params={"since": -4})).json()
        assert (output["text"], output["next_offset"]) == ("Two\n", output["end"])
        resized = await client.post(f"{path}/resize", json={"cols": 80, "rows": 24})
        assert resized.json() == {"resized": False}


async def test_calls_are_counted_once_whether_they_were_read_or_heard(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path)
    call = {"tool": "fs_read", "outcome": "ok", "ms": 2.0, "bytes": 100, "whole_bytes": 500}
    audit.write(call)
    audit.note("policy")
    series = CallSeries(Trail(tmp_path, lambda: None), audit)
    await series.points(60, 60)
    audit.write({**call, "outcome": "NOT_FOUND", "ms": 500.0, "pruned_bytes": 800})
    total: dict[str, float] = {}
    for point in await series.points(60, 60):
        for name in ("calls", "errors", "bytes", "saved_tokens"):
            total[name] = total.get(name, 0) + point[name]
    assert total == {"calls": 2, "errors": 1, "bytes": 200, "saved_tokens": (400 + 400 + 800) // 4}
    audit.close()


async def test_the_stream_of_the_page_tells_of_calls_changes_and_output(daemon: Daemon) -> None:
    async with daemon.http() as client:
        session = (await client.post("/api/sessions", json={"command": "echo hello; cat", "pty": False})).json()
        seen: dict[str, Any] = {}
        async with client.stream("GET", "/ui/stream", params={"sessions": f"{session['id']}:0"}) as stream:
            name = ""
            async for line in stream.aiter_lines():
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    seen.setdefault(name, json.loads(line[6:]))
                    if name == "hello":
                        await client.post("/tools/fs_list", json={"path": "/"})
                        await client.post("/api/switch", json={"target": "fs_read", "enabled": False})
                if {"hello", "output", "line", "changed"} <= seen.keys():
                    break
        assert (seen["output"]["chunk"], seen["output"]["offset"], seen["output"]["next_offset"]) == ("hello\n", 0, 6)
        assert seen["line"]["tool"] == "fs_list"
        assert seen["changed"] == {"topic": "tools"}
        bad = await client.get("/ui/stream", params={"sessions": "x:y"})
        assert bad.status_code == 400


async def test_health_shows_what_a_server_printed_to_the_owner_alone_and_no_key_to_anybody(home: Path) -> None:
    server = {"command": "sh", "args": ["-c", "echo the key is sk-1 >&2; exit 3"]}
    category = {"id": "broken", "mount": server}
    document = {"profiles": [{"id": "default", "categories": [category]}]}
    (home / "tools.json").write_text(json.dumps(document))
    url = "http://127.0.0.1:9/prune?key=sk-2"
    with running(home, extra={"PRUNER_URL": url}) as daemon:
        token = daemon.cli("token", "create", "reader", "--profile", "read-only").stdout.splitlines()[1]
        async with daemon.http() as client:

            async def ask(**headers: str) -> dict[str, Any]:
                answer: dict[str, Any] = (await client.get("/health", headers=headers)).json()
                return answer

            owner = await eventually(ask, lambda health: "stderr" in health["mounts"]["broken"])
            reader = await ask(Authorization=f"Bearer {token}")
    assert owner["mounts"]["broken"]["stderr"] == "the key is sk-1"
    assert reader["mounts"]["broken"]["state"] == owner["mounts"]["broken"]["state"]
    assert "sk-" not in json.dumps(reader)
    for health in (owner, reader):
        assert health["pruning"] == {"engine": "remote", "service": "http://127.0.0.1:9/prune"}


async def test_the_stream_of_the_page_is_for_the_owner_alone(daemon: Daemon) -> None:
    """Seen: with any token it told every line of the audit log."""
    token = json.loads(daemon.cli("token", "create", "guest", "--json").stdout)["token"]
    async with daemon.http() as http, http.stream("GET", "/ui/stream") as own:
        assert own.status_code == 200
    async with daemon.http(Authorization=f"Bearer {token}") as http:
        assert (await http.get("/ui/stream")).status_code == 403
