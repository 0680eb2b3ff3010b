"""The audit log: a line for every call, and for everything that decides who may make one."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.calls.call import Call, Caller
from mcp_agent.calls.observers import argument_shapes
from mcp_agent.storage.audit_log import AuditLog
from mcp_agent.storage.refusals import RefusalCount, Refusals
from registry.gate import Access
from tests.support.daemon import Daemon, command, running
from tests.support.shell_host import shell_host
from tests.support.waiting import eventually
from tools.kit.params import Field


async def _call(daemon: Daemon, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await daemon.rpc("tools/call", name=tool, arguments=arguments)
    return answer.get("result", answer)  # type: ignore[no-any-return]  # an object, whichever of the two


def lines(home: Path, event: str | None = None) -> list[dict[str, Any]]:
    """The lines of calls, or those of an event."""
    log = next(home.rglob("audit.jsonl"))
    every = [json.loads(line) for line in log.read_text().splitlines()]
    return [line for line in every if line.get("event") == event]


async def test_every_call_leaves_a_line_without_its_secrets(daemon: Daemon, tmp_path: Path) -> None:
    await _call(daemon, "fs_write", path=str(tmp_path / "x"), content="hunter2 is secret")
    await _call(daemon, "fs_read", path=str(tmp_path / "nowhere"))
    await _call(daemon, "fs_raed")
    await _call(daemon, "shell_exec", command="exit 3")
    log = next(daemon.home.rglob("audit.jsonl"))
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    found = lines(daemon.home)
    assert [(line["tool"], line["outcome"], line.get("exit")) for line in found] == [
        ("fs_write", "ok", None),
        ("fs_read", "NOT_FOUND", None),
        ("fs_raed", "REFUSED -32602", None),
        ("shell_exec", "ok", 3),
    ]
    assert [line["seq"] for line in found] == [2, 3, 4, 5]
    assert found[0]["args"] == {"path": str(tmp_path / "x"), "content": "<17 chars>"}
    assert (found[0]["client"], found[0]["transport"]) == ("owner", "rpc")
    assert found[0]["bytes"] > 50
    assert "hunter2" not in log.read_text()


@pytest.mark.parametrize(
    ("command_line", "shown"),
    [
        ("git push --force", "git … <16 chars>"),
        ("  ./run.sh a", "./run.sh … <12 chars>"),
        ("TOKEN=hunter2 deploy", "<20 chars>"),
        ("$(cat secret)", "<13 chars>"),
        ("'quoted' x", "<10 chars>"),
    ],
)
def test_of_a_command_the_program_is_kept(command_line: str, shown: str) -> None:
    assert argument_shapes({"command": command_line}, {"command": Field(is_command=True)}) == {"command": shown}


def test_a_name_that_is_no_text_is_no_end_of_the_record(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path)
    audit.note("policy_rejected", problems=["caf\udce9 is not there"])
    audit.close()
    (line,) = lines(tmp_path, "policy_rejected")
    assert line["problems"] == ["caf? is not there"]


def test_a_line_of_an_answered_call_is_there_after_a_kill(home: Path) -> None:
    with running(home) as daemon:
        asyncio.run(_call(daemon, "fs_list", path="."))
        daemon.process.kill()
        daemon.process.wait()
    assert [line["tool"] for line in lines(home)] == ["fs_list"]


def test_the_file_is_turned_over_when_it_is_full(home: Path) -> None:
    state = home / "state"
    for _ in range(2):
        (state / "audit").mkdir(parents=True, exist_ok=True)
        with open(state / "audit" / "audit.jsonl", "ab") as log:
            os.truncate(log.fileno(), 50 * 1024 * 1024)
        done = command(home, "call", "fs_list", f"path={home}", "--state-dir", str(state))
        assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (state / "audit").iterdir()) == [
        "audit.jsonl",
        "audit.jsonl.1",
        "audit.jsonl.2",
    ]
    assert (state / "audit" / "audit.jsonl").stat().st_size < 1_000


async def test_the_form_on_record_is_the_one_that_was_written(daemon: Daemon) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    ways = [("/mcp", "json"), ("/mcp", "text"), ("/mcp/compact", "text")]
    async with daemon.http() as http:
        for path, form in ways:
            params = {"name": "fs_list", "arguments": {"path": "."}}
            await http.post(path, json={**call, "params": params}, headers={"X-MCP-Agent-Form": form})
        await http.post("/mcp", json={**call, "params": {"name": "fs_lits"}})
    assert [line["form"] for line in lines(daemon.home)] == ["json", "text", "compact", None]


async def test_a_denied_call_is_on_record_with_its_rule(daemon: Daemon) -> None:
    rule = {"id": "no-env", "pattern": ".env", "reason": "secrets"}
    daemon.save({"profiles": [{"id": "default", "deny": {"paths": [rule]}}]})
    (daemon.home / ".env").write_text("x")
    await eventually(lambda: _call(daemon, "fs_read", path=".env"), lambda answer: answer["isError"])
    await _call(daemon, "read", file_path=".env")
    found = lines(daemon.home)[-2:]
    assert [(line["tool"], line["outcome"], line["rule"]) for line in found] == [
        ("fs_read", "DENIED", "no-env"),
        ("read", "permission_denied", "no-env"),
    ]


async def test_a_change_of_policy_is_on_record_with_who_made_it(daemon: Daemon) -> None:
    (start,) = lines(daemon.home, "start")
    assert daemon.cli("disable", "shell").returncode == 0
    async with daemon.http() as http:
        await http.post("/api/switch", json={"target": "fs_read", "enabled": False})
    rule = {"id": "no-env", "pattern": ".env", "reason": "secrets"}
    daemon.save({"activeProfile": "mine", "profiles": [{"id": "mine", "deny": {"paths": [rule]}}]})
    await eventually(lambda: lines(daemon.home, "policy"), lambda found: len(found) >= 3)
    found = lines(daemon.home, "policy")
    assert [(line["by"], line["changes"]) for line in found] == [
        ("command", ["default: shell off"]),
        ("api", ["default: fs_read off"]),
        (
            "file",
            [
                "active profile: default → mine",
                "default: fs_read on",
                "default: shell on",
                "mine: new profile",
                "mine: filesystem on",
                "mine: shell on",
                "mine: pruning on",
                "mine: artifacts on",
                "mine: deny rule no-env added",
            ],
        ),
    ]
    hashes = [start["policy"], *(line["new"] for line in found)]
    assert [line["old"] for line in found] == hashes[:-1]
    assert len(set(hashes)) == 4


def test_a_change_without_a_daemon_is_on_record_too(home: Path) -> None:
    assert command(home, "disable", "fs_read").returncode == 0
    assert command(home, "profile", "use", "lean").returncode == 0
    assert [(line["by"], line["changes"]) for line in lines(home, "policy")] == [
        ("command", ["default: fs_read off"]),
        ("command", ["active profile: default → lean"]),
    ]


async def test_a_file_that_is_refused_is_on_record(daemon: Daemon) -> None:
    daemon.save('{"version": 7}')
    await daemon.logged("registry.rejected")
    (line,) = lines(daemon.home, "policy_rejected")
    assert line["problems"] == ["/version: must be 1, not 7"]


async def test_a_refused_login_is_on_record_without_the_token(daemon: Daemon) -> None:
    """At most a few lines a second for one address, and a count of the rest when the second is over."""
    began = time.monotonic()
    async with daemon.http(Authorization="Bearer hunter2-hunter2") as http:
        for _ in range(200):
            assert (await http.get("/openapi.json")).status_code == 401
    async with daemon.http(Origin="http://evil.example") as http:
        assert (await http.get("/openapi.json")).status_code == 403
    found = await eventually(
        lambda: [(line["reason"], line["count"]) for line in lines(daemon.home, "login_refused")],
        lambda found: sum(count for _, count in found) == 201,
    )
    # On a slow machine the requests take several seconds, and each second has its lines.
    seconds = 2 + int(time.monotonic() - began)
    assert len(found) <= 5 * seconds
    assert found[:4] == [("wrong_token", 1)] * 3 + [("wrong_token", found[3][1])]
    assert found[3][1] > 1
    assert len([line for line in daemon.log() if line["event"] == "security.token_refused"]) <= 3 * seconds
    assert "hunter2" not in next(daemon.home.rglob("audit.jsonl")).read_text()


def test_refusals_from_everywhere_cost_bounded_memory_and_lines() -> None:
    noted: list[RefusalCount] = []
    refusals = Refusals(noted.append)
    for number in range(5_000):
        refusals.add("wrong_token", f"10.0.{number // 250}.{number % 250}", "/")
    for _ in range(10_000):
        refusals.add("no_token", "10.0.0.1", "/")
    refusals.flush()
    assert refusals.counts == {"wrong_token": 5_000, "no_token": 10_000}
    assert sum(each.count for each in noted) == 15_000
    assert len(noted) < 100


async def test_calls_that_are_refused_are_bounded_and_counted(tmp_path: Path) -> None:
    """Seen: a client with no tools called unknown ones, and washed 300 MB of audit lines out in a minute."""
    async with shell_host(tmp_path) as host:
        caller = Caller("guest", Access("browser-only"), "rpc")
        for tool in ("fs_read", "no_such_tool"):
            for _ in range(2_000):
                await host.daemon.dispatcher.call(Call("a-call", caller, tool, {"path": "x" * 200}))
        written = host.daemon.config.audit_dir / "audit.jsonl"
        assert written.read_text().count('"guest"') < 200
        refused = await eventually(
            lambda: [line for line in map(json.loads, written.read_text().splitlines()) if line["client"] == "guest"],
            lambda lines: sum(line.get("count", 1) for line in lines) == 4_000,
        )
    counts: Counter[str] = Counter()
    for line in refused:
        counts[line["outcome"]] += line.get("count", 1)
    assert counts == {"TOOL_DISABLED": 2_000, "REFUSED -32602": 2_000}
    assert {line["event"] for line in refused if "count" in line} == {"calls_refused"}


async def test_clients_that_introduce_themselves_without_end_are_counted(daemon: Daemon) -> None:
    """Seen: each `initialize` wrote a line, as many as a client sent."""
    begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "flood", "version": "1"}}
    async with daemon.http() as http:
        for _ in range(200):
            message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}
            await http.post("/rpc", json=message)

    def counted() -> Any:
        return sum(line.get("count", 1) for line in lines(daemon.home, "connect") + lines(daemon.home, "connects"))

    assert await eventually(counted, lambda count: count == 200) == 200
    assert len(lines(daemon.home, "connects")) > 0


async def test_every_file_of_the_state_folder_is_its_owners_alone(daemon: Daemon) -> None:
    """Seen: databases, logs and crash records were open to others wherever the folder above them was."""
    await _call(daemon, "shell_exec", command="seq 300000")
    await _call(daemon, "shell_start_session", command="sleep 60")
    await _call(daemon, "fs_write", path=str(daemon.home / "x"), content="x")
    assert daemon.cli("token", "create", "laptop").returncode == 0
    state = daemon.tools_json.parent / ".local/state/mcp-agent"
    # The journal keeps old files with their own modes, to give them back.
    found = [path for path in state.rglob("*") if path.is_file() and "journal" not in path.parts]
    assert {"index.sqlite", "index.sqlite-wal", "daemon.log", "owner.json"} < {path.name for path in found}
    assert [path.name for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


async def test_the_plots_come_back_when_the_log_could_not_be_read_once(daemon: Daemon) -> None:
    """Seen: one failed read was remembered, and every later one answered with it."""
    await _call(daemon, "fs_list", path=".")
    log = next(daemon.home.rglob("audit.jsonl"))
    aside = log.rename(log.with_name("aside"))
    log.mkdir()
    async with daemon.http() as http:
        assert (await http.get("/api/activity/series")).status_code == 503
        log.rmdir()
        aside.rename(log)
        points = (await http.get("/api/activity/series")).json()["points"]
    assert sum(each["calls"] for each in points) == 1
