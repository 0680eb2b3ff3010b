"""The prompts of mounted servers, for those who have their tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_agent.calls.call import Caller
from mcp_agent.protocol import eras
from mcp_agent.protocol.conversation import Conversation
from mcp_agent.protocol.jsonrpc import RpcError, RpcMessage
from mcp_agent.protocol.methods import McpRequest
from registry.gate import Access
from tests.support.shell_host import ShellHost
from tests.upstream.mounting import mounted, small

_WHO = [{"name": "who", "required": True}]


async def _ask(host: ShellHost, method: str, profile: str | None = None, **params: Any) -> Any:
    caller = Caller("owner", Access(profile), "http")
    return await host.daemon.methods.result(
        McpRequest(RpcMessage(1, method, params), caller, Conversation(eras.LATEST_HANDSHAKE))
    )


async def test_they_are_listed_and_given_and_of_two_with_one_name_the_second_has_its_category(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small(), "other": small()}) as host:
        described = {"description": "Greet somebody.", "arguments": _WHO}
        listed = [{"name": "greet", **described}, {"name": "other_greet", **described}]
        assert (await _ask(host, "prompts/list"))["prompts"] == listed
        for name in ("greet", "other_greet"):
            said = await _ask(host, "prompts/get", name=name, arguments={"who": "Ada"})
            assert said["messages"] == [
                {"role": "user", "content": {"type": "text", "text": "Say hello to Ada."}},
            ]
        with pytest.raises(RpcError, match="the prompt greet needs who"):
            await _ask(host, "prompts/get", name="greet")


async def test_a_caller_without_its_tools_does_not_see_its_prompts(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small()}) as host:
        assert (await _ask(host, "prompts/list", "pruner"))["prompts"] == []
        with pytest.raises(RpcError, match="Unknown prompt: greet"):
            await _ask(host, "prompts/get", "pruner", name="greet", arguments={"who": "Ada"})


async def test_a_server_that_does_not_answer_is_an_error_with_its_reason(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small(timeout_seconds=0.5)}) as host:
        assert (await host.call("hang"))["error"]["code"] == "TIMEOUT"
        with pytest.raises(RpcError, match="the prompt greet cannot be given: small did not answer prompts/get"):
            await _ask(host, "prompts/get", name="greet", arguments={"who": "Ada"})
