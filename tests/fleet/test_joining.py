"""How boxes come and go: names, profiles, and what callers learn of a box that is dead or hangs."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.fleet.bus import Bus
from mcp_agent.fleet.messages import Beat, Leaves, Who, encode
from tests.support.daemon import COMMAND, command, environment
from tests.support.fleet import Fleet, Program, call, running_fleet
from tests.support.nats import nats_server
from tests.support.waiting import PATIENCE_S, eventually, eventually_sync


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with nats_server(tmp_path) as server, running_fleet(tmp_path, server.url) as fleet:
        yield fleet


def _refused(fleet: Fleet, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A member that does not come to be."""
    home.mkdir(exist_ok=True)
    return command(home, "serve", "--fleet", fleet.url, "--no-listen", "--state-dir", str(home / "state"), *arguments)


def test_the_second_daemon_of_one_name_is_refused(fleet: Fleet, tmp_path: Path) -> None:
    fleet.member("one")
    refused = _refused(fleet, tmp_path / "other", "--box", "one")
    assert refused.returncode == 1
    assert "there is a box one in the fleet already" in refused.stderr
    assert "--box" in refused.stderr


def test_of_two_that_join_at_the_same_time_not_both_stay(fleet: Fleet, tmp_path: Path) -> None:
    homes = [tmp_path / name for name in ("first", "second")]
    processes = []
    for home in homes:
        home.mkdir()
        words = ["serve", "--fleet", fleet.url, "--box", "same", "--no-listen", "--state-dir", str(home / "state")]
        processes.append(
            subprocess.Popen(
                [COMMAND, *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(home),
                cwd=home,
            )
        )
    try:
        codes = eventually_sync(lambda: [process.poll() for process in processes], lambda codes: codes.count(None) < 2)
        assert set(codes) <= {1, None}
    finally:
        for process in processes:
            process.terminate()
        errors = [process.communicate(timeout=PATIENCE_S)[1] for process in processes]
    assert any(b"there is a box same in the fleet already" in text for text in errors)


async def test_no_message_ends_a_running_box(fleet: Fleet) -> None:
    """Somebody with the credentials of the box beats as an older start of it would, and asks and leaves in its name."""
    box = fleet.member("one", "--port", "0").running
    bus = Bus(fleet.url, name="forger", inbox_prefix="_INBOX.box.one")
    await bus.start()
    for forged in (Beat("0", "x"), Leaves("1"), Leaves("0"), Who(boot="0"), Who(), {"age_s": 1e9, "boot": "0"}):
        for subject in ("agent.one.beat", "agent.one.who", "agent.who"):
            await bus.publish(subject, encode(forged))
    await bus.request("agent.one.who", encode(Who()), PATIENCE_S)
    await bus.close()
    assert (await call(box, "shell_exec", command="true"))["exit_code"] == 0
    gateway = fleet.gateway().running
    assert (await call(gateway, "shell_exec", command="true"))["exit_code"] == 0


def test_a_box_that_is_to_check_signatures_refuses_to_join(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "other" / ".config" / "mcp-agent").mkdir(parents=True)
    (tmp_path / "other" / ".config" / "mcp-agent" / "config.toml").write_text('[fleet]\ntrust = ["main=UAKEY"]\n')
    refused = _refused(fleet, tmp_path / "other", "--box", "one")
    assert refused.returncode == 2
    assert "fleet.trust in " in refused.stderr
    assert "calls are not signed any more" in refused.stderr
    assert "trust" not in command(tmp_path, "serve", "--help").stdout


def test_a_profile_for_gateways_that_does_not_exist_is_refused(fleet: Fleet, tmp_path: Path) -> None:
    refused = _refused(fleet, tmp_path / "other", "--box", "one", "--fleet-profile", "nobody")
    assert (refused.returncode, "there is no such profile" in refused.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--box", "Bad Name"], "lower-case letters"),
        (["--box", "one", "--label", "gpu"], "gpu=1"),
    ],
)
def test_a_name_or_a_label_that_cannot_be_used_is_refused(
    fleet: Fleet, tmp_path: Path, arguments: list[str], message: str
) -> None:
    refused = _refused(fleet, tmp_path / "other", *arguments)
    assert (refused.returncode, message in refused.stderr) == (2, True)


def test_no_listen_without_a_fleet_is_refused(tmp_path: Path) -> None:
    refused = command(tmp_path, "serve", "--no-listen")
    assert (refused.returncode, "--no-listen needs --fleet" in refused.stderr) == (2, True)


def test_the_table_fleet_of_config_toml_makes_a_member(fleet: Fleet, tmp_path: Path) -> None:
    home = tmp_path / "configured"
    (home / ".config" / "mcp-agent").mkdir(parents=True)
    (home / ".config" / "mcp-agent" / "config.toml").write_text(
        f'[fleet]\nurl = "{fleet.url}"\nbox = "configured"\nprofile = "read-only"\n\n[fleet.label]\ngpu = 1\n'
    )
    member = Program(home, ("serve", "--no-listen"))
    member.start()
    try:
        row = asyncio.run(call(fleet.gateway().running, "boxes"))["boxes"][0]
        assert (row["box"], row["labels"]) == ("configured", {"gpu": "1"})
    finally:
        member.stop()


def test_a_switch_on_the_machine_of_a_box_without_a_port_says_that_it_holds(fleet: Fleet) -> None:
    box = fleet.member("one", "--no-listen").running
    changed = box.cli("disable", "fs_list", "--tools-file", str(box.tools_json))
    assert (changed.returncode, "no daemon is running" in changed.stdout) == (0, False)
    assert "it follows its tools.json within a second" in changed.stdout
    assert "has no port to be asked at" in box.cli("sessions", "list").stderr
    again = box.cli("serve", "--no-listen", "--fleet", fleet.url, "--box", "two")
    assert (again.returncode, f"without a port, pid {box.process.pid}" in again.stderr) == (1, True)


async def test_a_gateway_can_do_no_more_than_the_profile_for_gateways_allows(fleet: Fleet) -> None:
    fleet.member("free")
    fleet.member("careful", "--fleet-profile", "read-only", "--no-listen")
    gateway = fleet.gateway().running
    assert (await call(gateway, "shell_exec", command="true"))["exit_code"] == 0
    error = (await call(gateway, "shell_exec", command="true", box="careful"))["error"]
    assert error["code"] == "TOOL_DISABLED"
    rows = (await call(gateway, "boxes", filter="careful"))["boxes"]
    assert "shell_exec" in rows[0]["lacks_tools"]


async def test_a_tool_that_is_off_on_every_box_is_disabled_and_not_unknown(fleet: Fleet) -> None:
    for box in ("one", "two"):
        home = fleet.folder / box
        home.mkdir()
        off = {"id": "filesystem", "tools": [{"id": "fs_delete", "enabled": False}]}
        (home / "tools.json").write_text(json.dumps({"profiles": [{"id": "default", "categories": [off]}]}))
        fleet.member(box)
    gateway = fleet.gateway().running
    answer = (await gateway.rpc("tools/call", name="fs_delete", arguments={"path": "x"}))["result"]
    assert answer["isError"] is True
    assert answer["structuredContent"]["error"] == {
        "code": "TOOL_DISABLED",
        "message": "Tool fs_delete is disabled",
        "hint": "it is switched off for gateways on one, two; the owner can switch it on there with "
        "`mcp-agent enable fs_delete`. Ask them, or go on without it.",
    }
    unknown = await gateway.rpc("tools/call", name="fs_erase", arguments={})
    assert unknown["error"]["code"] == -32602


async def test_a_tool_that_one_box_has_takes_no_box(fleet: Fleet) -> None:
    fleet.member("free")
    fleet.member("careful", "--fleet-profile", "read-only", "--no-listen")
    tools = {each["name"]: each for each in (await fleet.gateway().running.rpc("tools/list"))["result"]["tools"]}
    assert "box" in tools["fs_read"]["inputSchema"]["properties"]
    assert "box" not in tools["shell_exec"]["inputSchema"]["properties"]


async def test_a_dead_box_is_unreachable_for_new_calls_and_for_those_under_way(fleet: Fleet) -> None:
    member = fleet.member("one")
    gateway = fleet.gateway().running
    mark = member.home / "begun"
    under_way = asyncio.create_task(call(gateway, "shell_exec", command="touch begun; exec sleep 600"))
    await eventually(mark.exists)
    member.kill()
    # Until the NATS server has noticed, a call is sent and gets no answer.
    fresh = await eventually(
        lambda: call(gateway, "shell_exec", command="true"), lambda found: found["may_have_run"] is False
    )
    assert fresh["error"]["code"] == "BOX_UNREACHABLE"
    lost = await under_way
    assert (lost["error"]["code"], lost["may_have_run"]) == ("BOX_UNREACHABLE", True)
    member.start()
    await eventually(lambda: call(gateway, "shell_exec", command="true"), lambda found: found.get("exit_code") == 0)


async def test_a_call_under_way_on_a_box_that_is_restarted_may_have_run_and_runs_once(fleet: Fleet) -> None:
    member = fleet.member("one")
    gateway = fleet.gateway().running
    under_way = asyncio.create_task(call(gateway, "shell_exec", command="echo x >> begun; exec sleep 600"))
    await eventually((member.home / "begun").exists)
    member.kill()
    await asyncio.to_thread(member.start)
    # A machine that takes long to start it again has been silent for too long before.
    assert (await under_way)["error"]["code"] in ("OUTCOME_UNKNOWN", "BOX_UNREACHABLE")
    assert (member.home / "begun").read_text() == "x\n"


async def test_a_box_that_hangs_delays_nobody_else(fleet: Fleet) -> None:
    stuck, other = fleet.member("stuck"), fleet.member("other")
    gateway = fleet.gateway().running
    assert stuck.process is not None
    stuck.process.send_signal(signal.SIGSTOP)
    try:
        waiting = [asyncio.create_task(call(gateway, "shell_exec", command="true", box="stuck")) for _ in range(20)]
        first = asyncio.create_task(call(gateway, "shell_exec", command="true", box="other"))
        await asyncio.wait([first, *waiting], return_when=asyncio.FIRST_COMPLETED)
        assert (await first)["exit_code"] == 0
        assert not any(task.done() for task in waiting)
        for _ in range(20):
            assert (await call(gateway, "shell_exec", command="true", box="other"))["exit_code"] == 0
        answers: list[dict[str, Any]] = await asyncio.gather(*waiting)
    finally:
        stuck.process.send_signal(signal.SIGCONT)
    assert {(answer["error"]["code"], answer["may_have_run"]) for answer in answers} == {("BOX_UNREACHABLE", True)}
    assert other.process is not None


@pytest.mark.alone
async def test_a_new_call_to_a_dead_box_fails_in_50_ms_and_one_under_way_in_5_s(fleet: Fleet) -> None:
    member = fleet.member("one")
    fleet.member("two")
    gateway = fleet.gateway().running
    under_way = asyncio.create_task(call(gateway, "shell_exec", command="touch begun; exec sleep 600", box="one"))
    await eventually((member.home / "begun").exists)
    ended_at: list[float] = []
    under_way.add_done_callback(lambda _: ended_at.append(time.monotonic()))
    member.kill()
    killed_at = time.monotonic()
    async with gateway.http() as client:
        took = []
        for _ in range(5):
            began = time.monotonic()
            answer = (await client.post("/tools/shell_exec", json={"command": "true", "box": "one"})).json()
            took.append(time.monotonic() - began)
            assert answer["error"]["code"] == "BOX_UNREACHABLE"
    assert min(took) < 0.05
    assert (await under_way)["error"]["code"] == "BOX_UNREACHABLE"
    # Twice as long, for a machine that has other things to do.
    assert ended_at[0] - killed_at < 10
