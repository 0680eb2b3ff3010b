"""The process tabs of Open WebUI: what the model of a chat has started, while it runs and shortly after."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

from tests.support.daemon import Daemon, running
from tests.support.open_terminal import get, run_tool, terminal
from tests.support.peers import official
from tests.support.waiting import eventually


async def _started(page: httpx2.AsyncClient, command: str, **arguments: Any) -> str:
    """The id of a session that the model starts; its form is text, as a model reads it."""
    answer = await run_tool(page, "shell_start_session", command=command, **arguments)
    assert answer.status_code == 200, answer.text
    return answer.text.split()[1]


async def _tabs(page: httpx2.AsyncClient) -> list[dict[str, Any]]:
    tabs: list[dict[str, Any]] = await get(page, "/execute")
    return tabs


async def _output(page: httpx2.AsyncClient, process_id: str, **query: Any) -> dict[str, Any]:
    found: dict[str, Any] = await get(page, f"/execute/{process_id}/status", **{"wait": 0, "offset": 0, **query})
    return found


async def test_a_session_is_a_tab_of_its_chat_and_of_no_other(shared_daemon: Daemon) -> None:
    async with (
        terminal(shared_daemon, chat="mine") as page,
        terminal(shared_daemon, chat="other") as other_chat,
        terminal(shared_daemon, user="u-2", chat="mine") as other_user,
        terminal(shared_daemon, user="u-1", chat="") as no_chat,
        terminal(shared_daemon, user="", chat="") as owner,
    ):
        command = "printf 'one\\ntwo\\n'; sleep 60"
        session = await _started(page, command)
        tab = {"id": session, "command": command, "status": "running", "exit_code": None}
        assert await _tabs(page) == [tab]
        for other in (other_chat, other_user, no_chat):
            assert await _tabs(other) == []
            assert (await other.get(f"/execute/{session}/status")).status_code == 404
        # The owner's token without a user is the owner.
        assert tab in await _tabs(owner)
        seen = await eventually(lambda: _output(page, session), lambda seen: bool(seen["output"]))
        assert seen == {
            **tab,
            "output": [{"type": "output", "data": "one\r\ntwo\r\n"}],
            "next_offset": 8,
            "truncated": False,
        }
        assert (await _output(page, session, offset=8))["output"] == []
        await run_tool(page, "shell_stop_session", session_id=session)
        assert [(each["status"], each["exit_code"]) for each in await _tabs(page)] == [("killed", 143)]


async def test_a_session_of_another_connection_is_listed_by_the_same_chat(shared_daemon: Daemon) -> None:
    headers = {"X-OpenWebUI-Chat-Id": "shared", "X-OpenWebUI-User-Id": "u-1"}
    async with shared_daemon.http(**headers) as openapi, terminal(shared_daemon, chat="shared") as page:
        started = await openapi.post("/tools/shell_start_session", json={"command": "exit 4"})
        session = started.json()["session_id"]
        ended = await eventually(lambda: _tabs(page), lambda tabs: bool(tabs) and tabs[0]["status"] == "done")
    assert ended == [{"id": session, "command": "exit 4", "status": "done", "exit_code": 4}]


async def test_a_command_over_mcp_is_listed_by_its_chat_too(shared_daemon: Daemon) -> None:
    headers = {"X-OpenWebUI-Chat-Id": "over-mcp", "X-OpenWebUI-User-Id": "u-1"}
    go = shared_daemon.home / "go-mcp"
    command = f"until [ -e {go} ]; do sleep 0.02; done"
    async with (
        shared_daemon.http(**headers) as http,
        terminal(shared_daemon, chat="over-mcp") as page,
        official(streamable_http_client(f"{shared_daemon.url}/mcp", http_client=http), "legacy") as peer,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(peer.call("shell_exec", command=command))
        (tab,) = await eventually(lambda: _tabs(page), bool)
        go.touch()
    assert (tab["command"], tab["status"]) == (command, "running")


@pytest.mark.parametrize("tool", ["shell_exec", "bash"])
async def test_a_command_is_shown_with_its_output_while_it_runs_and_how_it_ended(
    shared_daemon: Daemon, tool: str
) -> None:
    go = shared_daemon.home / f"go-{tool}"
    command = f"echo begun; until [ -e {go} ]; do sleep 0.02; done; echo done; exit 5"
    async with terminal(shared_daemon, chat=tool) as page:
        call = asyncio.create_task(run_tool(page, tool, command=command))
        (tab,) = await eventually(lambda: _tabs(page), bool)
        assert (tab["command"], tab["status"]) == (command, "running")
        begun = await eventually(lambda: _output(page, tab["id"]), lambda seen: bool(seen["output"]))
        assert begun["output"][0]["data"] == "begun\r\n"
        go.touch()
        assert "done" in (await call).text
        assert await _tabs(page) == [{**tab, "status": "done", "exit_code": 5}]
        rest = await _output(page, tab["id"], offset=begun["next_offset"])
    assert (rest["status"], rest["output"][0]["data"]) == ("done", "done\r\n")


@pytest.mark.parametrize("tool", ["shell_exec", "bash"])
async def test_a_command_that_has_ended_before_anybody_looks_has_a_tab_with_its_output(
    shared_daemon: Daemon, tool: str
) -> None:
    async with terminal(shared_daemon, chat=f"quick-{tool}") as page, terminal(shared_daemon, chat="other") as other:
        await run_tool(page, tool, command="echo quick; exit 3")
        (tab,) = await _tabs(page)
        assert (tab["command"], tab["status"], tab["exit_code"]) == ("echo quick; exit 3", "done", 3)
        seen = await _output(page, tab["id"])
        again = await _output(page, tab["id"])
        assert tab["id"] not in [each["id"] for each in await _tabs(other)]
    assert seen == again
    assert (seen["output"][0]["data"], seen["next_offset"], seen["truncated"]) == ("quick\r\n", 6, False)


async def test_the_tab_of_a_command_that_printed_much_has_its_last_lines(shared_daemon: Daemon) -> None:
    async with terminal(shared_daemon, chat="much") as page:
        await run_tool(page, "shell_exec", command="seq 1 200000")
        (tab,) = await _tabs(page)
        seen = await _output(page, tab["id"], tail=1000)
    assert seen["output"][0]["data"].endswith("199999\r\n200000\r\n")
    assert (seen["truncated"], seen["next_offset"]) == (True, 1_288_895)


async def test_every_one_of_many_quick_commands_has_a_tab(shared_daemon: Daemon) -> None:
    async with terminal(shared_daemon, chat="many") as page:
        for number in range(15):
            await run_tool(page, "shell_exec", command=f"echo {number}")
        tabs = await _tabs(page)
        shown = [(await _output(page, tab["id"]))["output"][0]["data"] for tab in tabs]
    assert shown == [f"{number}\r\n" for number in range(15)]


async def test_the_list_has_only_the_beginning_of_a_very_long_command(shared_daemon: Daemon) -> None:
    async with terminal(shared_daemon, chat="long-command") as page:
        await run_tool(page, "shell_exec", command=": " + "x" * 100_000)
        (tab,) = await _tabs(page)
    assert len(tab["command"]) < 3_000


async def test_a_client_that_leaves_ends_its_command_and_the_tab_says_so(shared_daemon: Daemon) -> None:
    async with terminal(shared_daemon, chat="stopped") as page:
        call = asyncio.create_task(run_tool(page, "shell_exec", command="sleep 60"))
        await eventually(lambda: _tabs(page), bool)
        call.cancel()
        ended = await eventually(lambda: _tabs(page), lambda tabs: tabs[0]["status"] != "running")
    assert [(tab["status"], tab["exit_code"]) for tab in ended] == [("killed", 143)]


async def test_only_the_last_lines_of_a_long_output_are_sent(shared_daemon: Daemon) -> None:
    async with terminal(shared_daemon, chat="long") as page:
        session = await _started(page, "seq 1 200000")
        seen = await eventually(lambda: _output(page, session, tail=3), lambda seen: seen["status"] == "done")
        whole = await _output(page, session)
    assert seen["output"] == [{"type": "output", "data": "199998\r\n199999\r\n200000\r\n"}]
    assert seen["truncated"] is True
    assert len(whole["output"][0]["data"]) < 400_000
    assert whole["truncated"] is True
    assert seen["next_offset"] == whole["next_offset"] == len("".join(f"{n}\n" for n in range(1, 200_001)))


async def test_a_wait_ends_with_the_process(shared_daemon: Daemon) -> None:
    async with terminal(shared_daemon, chat="wait") as page:
        session = await _started(page, "sleep 0.3; echo over")
        seen = await _output(page, session, wait=20)
    assert (seen["status"], seen["exit_code"], seen["output"][0]["data"]) == ("done", 0, "over\r\n")


async def test_the_tab_of_a_session_does_not_show_the_question_for_a_mode(shared_daemon: Daemon) -> None:
    command = r"printf 'A\033[?12$pB\033[?20'; read go; printf '26$pC'"
    async with terminal(shared_daemon, chat="modes") as page:
        session = await _started(page, command)
        begun = await eventually(lambda: _output(page, session), lambda seen: seen["next_offset"] == 9)
        await run_tool(page, "shell_send_input", session_id=session, input="go\n")
        rest = await eventually(
            lambda: _output(page, session, offset=begun["next_offset"]), lambda seen: seen["status"] == "done"
        )
    assert begun["output"][0]["data"] == "AB"
    assert "C" in rest["output"][0]["data"]
    assert "$p" not in rest["output"][0]["data"]


@pytest.mark.parametrize("query", ["offset=x", "tail=x", "wait=x"])
async def test_a_number_that_is_none_is_refused(shared_daemon: Daemon, query: str) -> None:
    async with terminal(shared_daemon, chat="numbers") as page:
        session = await _started(page, "sleep 60")
        answer = await page.get(f"/execute/{session}/status?{query}")
        await run_tool(page, "shell_stop_session", session_id=session)
    assert (answer.status_code, answer.json()["detail"]) == (400, f"{query[:-2]} is 'x' and must be a number")


async def test_the_tools_are_described_and_answer_in_text(shared_daemon: Daemon) -> None:
    async with terminal(shared_daemon) as page:
        paths = (await get(page, "/openapi.json"))["paths"]
        prompt = (await get(page, "/system"))["prompt"]
        listed = await run_tool(page, "fs_list", path=str(shared_daemon.home))
        config = await get(page, "/api/config")
        assert (await get(page, "/skills"), await get(page, "/ports")) == ([], {"ports": []})
    assert "/tools/shell_exec" in paths
    assert f"Relative paths count from {shared_daemon.home}" in prompt
    assert listed.headers["content-type"] == "text/plain; charset=utf-8"
    assert config["features"] == {"terminal": True, "notebooks": True, "system": True}


async def test_switching_the_shell_off_ends_the_tabs(home: Path) -> None:
    with running(home) as daemon:
        async with terminal(daemon) as page:
            session = await _started(page, "sleep 60")
            assert [tab["id"] for tab in await _tabs(page)] == [session]
            assert (await asyncio.to_thread(daemon.cli, "disable", "shell")).returncode == 0
            assert await _tabs(page) == []
            assert (await page.get(f"/execute/{session}/status")).status_code == 403
