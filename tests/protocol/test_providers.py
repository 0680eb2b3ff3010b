"""What other servers bring to this host: prompts, resources, results that are no text, and their log."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from mcp_agent.app import compose_daemon
from mcp_agent.calls.call import Caller
from mcp_agent.config import load
from mcp_agent.daemon import Daemon
from mcp_agent.protocol import eras
from mcp_agent.protocol.conversation import Conversation
from mcp_agent.protocol.jsonrpc import RpcError, RpcMessage
from mcp_agent.protocol.methods import McpRequest
from registry.catalog import Catalog, discover
from registry.gate import Access
from tests.conformance import server
from tests.conformance.server.documents import FixturePrompts, FixtureResources
from tests.conformance.server.fixtures import PIXEL


@pytest.fixture
def host(tmp_path: Any) -> Daemon:
    config = load({"tools_file": str(tmp_path / "tools.json"), "state_dir": str(tmp_path / "state")}, {})
    catalog = Catalog([*discover().tools, *discover(server).tools])
    return compose_daemon(config, catalog, tmp_path, resources=[FixtureResources()], prompts=[FixturePrompts()])


async def _answer(
    host: Daemon, method: str, *, heard: list[Any] | None = None, stateless: bool = False, **params: Any
) -> Any:
    conversation = None if stateless else Conversation(eras.LATEST_HANDSHAKE, log_level="info")
    notify = None if heard is None else lambda message: heard.append(json.loads(message)["params"])
    request = McpRequest(RpcMessage(1, method, params), Caller("a-test", Access(), "http"), conversation, notify)
    return await host.methods.result(request)


async def test_the_name_in_a_template_is_completed_from_the_callers_tools(host: Daemon) -> None:
    ref = {"type": "ref/resource", "uri": "host://tools/{name}"}
    argument = {"name": "name", "value": "fs_re"}
    found = await _answer(host, "completion/complete", ref=ref, argument=argument)
    assert found == {"completion": {"values": ["fs_read", "fs_read_range"], "total": 2, "hasMore": False}}


async def test_an_argument_of_a_prompt_is_completed_by_its_provider(host: Daemon) -> None:
    ref = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}
    found = await _answer(host, "completion/complete", ref=ref, argument={"name": "arg1", "value": "par"})
    assert found["completion"]["values"] == ["paris", "park", "party"]


@pytest.mark.parametrize(
    ("ref", "argument"),
    [
        ({"type": "ref/prompt", "name": "nobody"}, {"name": "arg1", "value": ""}),
        ({"type": "ref/resource", "uri": "host://tools"}, {"name": "name", "value": ""}),
        ({"type": "ref/prompt", "name": 1}, {"name": "arg1", "value": ""}),
        ({"type": "ref/else"}, {"name": "arg1", "value": ""}),
        ({"type": "ref/prompt", "name": "test_prompt_with_arguments"}, {"name": "arg1"}),
        (None, []),
    ],
)
async def test_a_completion_of_what_is_not_there_is_refused(host: Daemon, ref: Any, argument: Any) -> None:
    with pytest.raises(RpcError) as refusal:
        await _answer(host, "completion/complete", ref=ref, argument=argument)
    assert refusal.value.code == -32602


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("nobody", {}, "Unknown prompt: nobody"),
        ("test_prompt_with_arguments", {"arg1": "x"}, "the prompt test_prompt_with_arguments needs arg2"),
        ("test_prompt_with_arguments", {"arg1": 1}, "must be an object of strings"),
        (None, {}, "needs params.name"),
    ],
)
async def test_a_prompt_that_cannot_be_given_is_refused(host: Daemon, name: Any, arguments: Any, message: str) -> None:
    with pytest.raises(RpcError, match=message):
        await _answer(host, "prompts/get", name=name, arguments=arguments)


async def test_a_result_of_blocks_is_sent_as_it_is(host: Daemon) -> None:
    result = await _answer(host, "tools/call", name="test_image_content")
    block = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    assert orjson.loads(orjson.dumps(result)) == {"content": [block], "isError": False}


async def test_a_handshake_client_hears_a_tools_log_from_its_level_on(host: Daemon) -> None:
    heard: list[Any] = []
    await _answer(host, "tools/call", heard=heard, name="test_logging_tool")
    assert heard == [{"level": "emergency", "logger": "mcp-agent", "data": "for who wants to know next to nothing"}]


@pytest.mark.parametrize(("level", "count"), [("debug", 2), ("error", 1), (None, 0), ("loud", 0)])
async def test_a_stateless_client_hears_a_tools_log_if_it_asks(host: Daemon, level: str | None, count: int) -> None:
    heard: list[Any] = []
    meta = {} if level is None else {eras.META_LOG_LEVEL: level}
    await _answer(host, "tools/call", heard=heard, stateless=True, name="test_logging_tool", _meta=meta)
    assert len(heard) == count


async def test_a_tool_can_refuse_a_call_with_an_error_of_the_protocol(host: Daemon) -> None:
    with pytest.raises(RpcError) as refusal:
        await _answer(host, "tools/call", name="test_missing_capability")
    assert (refusal.value.code, refusal.value.data) == (-32021, {"requiredCapabilities": {"sampling": {}}})
