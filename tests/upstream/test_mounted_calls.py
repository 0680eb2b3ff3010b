"""Calls of tools of a mounted server, by the official client over our transport."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from mcp_agent.calls.call import Call, Caller
from registry.gate import Access
from tests.support import ROOT
from tests.support.waiting import PATIENCE_S, eventually, within
from tests.upstream.mounting import mounted, names, send, small


async def test_a_cancelled_call_is_cancelled_at_the_server_and_its_late_answer_disturbs_nobody(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small("--odd")}) as host:
        waiting = asyncio.create_task(host.call("await_cancel"))
        await eventually(lambda: host.daemon.mounts.facts["small"], lambda facts: "waiting" in facts.get("stderr", ""))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with within():
            assert (await host.call("cancelled"))["text"] == "1"
        assert host.daemon.mounts.facts["small"]["state"] == "running"


async def test_many_calls_at_once_each_get_their_own_answer(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small("--odd")}) as host, within():
        answers = await asyncio.gather(*(host.call("echo", text=str(number)) for number in range(50)))
        assert [answer["text"] for answer in answers] == [str(number) for number in range(50)]


async def test_an_answer_that_is_no_result_is_the_failure_of_the_server(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small("--odd")}) as host, within():
        message = "small: its answer is no result of MCP: content: Input should be a valid list"
        assert (await host.call("nonsense"))["error"] == {"code": "UPSTREAM_FAILED", "message": message}
        assert (await host.call("refuse"))["error"]["message"] == "not on a Sunday"


async def test_an_answer_of_too_many_elements_ends_the_connection_with_a_sentence(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small("--odd")}) as host, within():
        message = (await host.call("sixty_thousand"))["error"]["message"]
        assert message.endswith(": it sent a line that has more than 50000 elements")
        assert (await host.call("not_a_number"))["structuredContent"] == {"value": None}


async def test_an_answer_with_nan_is_taken_though_it_is_no_json(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small("--odd")}) as host, within():
        assert (await host.call("not_a_number"))["structuredContent"] == {"value": None}


async def test_a_text_that_a_server_has_cut_within_a_character_is_taken(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small("--odd")}) as host, within():
        assert (await host.call("half_character"))["text"] == "a \ufffd"


async def test_a_tool_that_promises_structured_content_is_held_to_it(tmp_path: Path) -> None:
    file = tmp_path / "more.json"
    file.write_text(json.dumps({"promise": {"inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}}}))
    async with mounted(tmp_path, {"small": small("--tools", str(file))}) as host, within():
        error = (await host.call("promise"))["error"]
        assert (error["code"], "output schema" in error["message"]) == ("UPSTREAM_FAILED", True)


async def test_lines_that_are_longer_than_the_pipe_do_not_mix(tmp_path: Path) -> None:
    texts = [str(number) * 150_000 if number % 2 else str(number) for number in range(8)]
    async with mounted(tmp_path, {"small": small()}) as host, within():
        answers = await asyncio.gather(*(send(host, "echo", text=text) for text in texts))
        assert [answer["content"][0]["text"] for answer in answers] == texts


async def test_what_an_answer_overtakes_is_not_lost(tmp_path: Path) -> None:
    """A notification before the answer goes to the client, the answer to the call."""
    async with mounted(tmp_path, {"small": small()}) as host, within():
        assert (await host.call("add_tool", name="fresh"))["text"] == "add_tool"
        await eventually(lambda: names(host, "small"), lambda listed: "fresh" in listed)


async def test_a_server_without_handshakes_is_called_over_the_pipe_too(tmp_path: Path) -> None:
    """Each request says who calls. A call of several rounds is finished; one that needs a person says so."""
    server = {"command": sys.executable, "args": [str(ROOT / "tests" / "support" / "rounds_server.py")]}
    async with mounted(tmp_path, {"rounds": server}, within_s=2 * PATIENCE_S) as host, within():
        assert host.daemon.mounts.facts["rounds"]["protocol"] == "2026-07-28"
        said = (await host.call("who"))["text"]
        assert all(f"io.modelcontextprotocol/{key}" in said for key in ("protocolVersion", "clientInfo"))
        assert (await host.call("wait"))["text"] == "later"
        error = (await host.call("ask"))["error"]
        assert (error["code"], "asks for input" in error["message"]) == ("UPSTREAM_FAILED", True)
        heard: list[tuple[float, float | None]] = []
        call = Call(
            "test", Caller("owner", Access(), "rpc", ""), "report", {}, report=lambda *news: heard.append(news[:2])
        )
        await host.daemon.dispatcher.call(call)
        assert heard == [(1, 2)]
