"""Who a call of a wrapped program works for, with clients on the wires of one daemon that share one token."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon, running
from tests.support.peers import WIRES, Peer, RpcPeer, ToolsPeer

EXAMPLE = Path(__file__).parents[3] / "examples" / "binnacle"
# Each stream, pipe or session is a conversation; on the other wires a client names it, or passes the handle.
CONVERSATIONS = ["mcp-handshake", "sse", "attached", "attached-stateless", "post-sse"]
WITHOUT = ["mcp-stateless", "rpc", "tools"]


@pytest.fixture
def bn(home: Path) -> Iterator[Daemon]:
    """A daemon that wraps `bn`, with two repositories beside its working folder."""
    shutil.copy(EXAMPLE / "tools.json", home / "tools.json")
    for name in ("one", "two"):
        (home / name).mkdir()
    with running(home, extra={"PATH": f"{EXAMPLE}{os.pathsep}{os.environ['PATH']}"}) as started:
        yield started


async def whoami(peer: Peer, **more: Any) -> dict[str, Any]:
    """The folder, the session and the agent that a call of the program is made with."""
    done = (await peer.call("bn_run", args=["task", "list"], **more)).object
    assert done["exit_code"] == 0, done
    seen: dict[str, Any] = json.loads((await peer.call("bn_run", args=["whoami"], **more)).object["stdout"])
    return seen


async def error_of(peer: Peer, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await peer.call(tool, **arguments)
    assert answer.is_error, answer
    error: dict[str, Any] = answer.object["error"]
    return error


@pytest.mark.parametrize("wire", CONVERSATIONS)
async def test_a_conversation_never_has_the_identity_of_another_one(bn: Daemon, wire: str) -> None:
    async with WIRES[wire](bn) as first, WIRES[wire](bn) as second:
        assert (await first.call("binnacle-set_agent", path=str(bn.home / "one"))).object["cwd"] == str(bn.home / "one")
        assert (await error_of(second, "bn_run", args=["status"]))["code"] == "NOT_INITIALIZED"
        before = await whoami(first)
        await second.call("binnacle-set_agent", path=str(bn.home / "two"))
        assert await whoami(first) == before
        assert (await whoami(second))["session"] != before["session"]
        await first.call("bn_run", args=["task", "add", "of the first"])
    assert (bn.home / "one" / ".binnacle" / "tasks.jsonl").exists()
    assert not (bn.home / "two" / ".binnacle").exists()


@pytest.mark.parametrize("wire", CONVERSATIONS)
async def test_the_session_id_of_a_conversation_stays_the_same(bn: Daemon, wire: str) -> None:
    async with WIRES[wire](bn) as peer:
        await peer.call("binnacle-set_agent", path=str(bn.home / "one"))
        before = await whoami(peer)
        agent = (await peer.call("binnacle-orient")).object["agent_id"]
        await peer.call("binnacle-set_agent", path=str(bn.home / "one"), agent_id=agent)
        assert await whoami(peer) == {"session": before["session"], "agent_id": agent}


@pytest.mark.parametrize("wire", WITHOUT)
async def test_a_call_without_a_conversation_is_told_to_pass_the_handle(bn: Daemon, wire: str) -> None:
    async with WIRES["sse"](bn) as other, WIRES[wire](bn) as peer:
        await other.call("binnacle-set_agent", path=str(bn.home / "two"))
        linked = (await peer.call("binnacle-set_agent", path=str(bn.home / "one"))).object
        assert "agent_handle" in linked["hint"]
        error = await error_of(peer, "bn_run", args=["status"])
        assert (error["code"], "agent_handle" in error["hint"]) == ("NOT_INITIALIZED", True)
        first = await whoami(peer, agent_handle=linked["handle"])
        assert await whoami(peer, agent_handle=linked["handle"]) == first
        assert (await whoami(other))["session"] != first["session"]


@pytest.mark.parametrize("peer_of", [RpcPeer, ToolsPeer])
@pytest.mark.parametrize("header", ["Mcp-Session-Id", "X-OpenWebUI-Chat-Id", "X-Session-Id"])
async def test_a_chat_that_the_client_names_is_a_conversation(bn: Daemon, header: str, peer_of: Any) -> None:
    async with bn.http(**{header: "a"}) as a, bn.http(**{header: "b"}) as b:
        await peer_of(a).call("binnacle-set_agent", path=str(bn.home / "one"))
        await peer_of(b).call("binnacle-set_agent", path=str(bn.home / "two"))
        assert (await whoami(peer_of(a)))["session"] != (await whoami(peer_of(b)))["session"]
    async with bn.http(**{header: "c"}) as c:
        assert (await error_of(peer_of(c), "bn_run", args=["status"]))["code"] == "NOT_INITIALIZED"


async def test_two_chats_on_one_session_of_mcp_are_two_conversations(bn: Daemon) -> None:
    async with bn.http(Accept="application/json, text/event-stream") as http:

        async def ask(chat: str, method: str, headers: dict[str, str], **params: Any) -> Any:
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answer = await http.post("/mcp", json=message, headers={"X-OpenWebUI-Chat-Id": chat, **headers})
            return answer if method == "initialize" else answer.json()["result"]["structuredContent"]

        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        opened = await ask("a", "initialize", {}, **hello)
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        linked = {"name": "binnacle-set_agent", "arguments": {"path": str(bn.home / "one")}}
        assert (await ask("a", "tools/call", session, **linked))["success"] is True
        status = {"name": "bn_run", "arguments": {"args": ["status"]}}
        assert (await ask("a", "tools/call", session, **status))["exit_code"] == 0
        assert (await ask("b", "tools/call", session, **status))["error"]["code"] == "NOT_INITIALIZED"


async def test_orient_and_goodbye_before_set_agent_answer_a_generic_agent(bn: Daemon) -> None:
    async with WIRES["sse"](bn) as peer:
        assert (await peer.call("binnacle-goodbye")).object == {
            "should_terminate": True,
            "use_shell": True,
            "terminated": False,
            "warning": "Cannot terminate agent via MCP. Agent should self-terminate.",
            "hint": "Use binnacle-set_agent with agent_id from shell-based orient call",
        }
        registered = (await peer.call("binnacle-orient")).object
        assert registered["warning"] == (
            "Agent registered via MCP. Goodbye will not terminate process. Use shell tools for full lifecycle support."
        )
        registry = bn.home / ".binnacle" / "agents.jsonl"
        assert registered["agent_id"] in registry.read_text()
        assert (await error_of(peer, "bn_run", args=["status"]))["code"] == "NOT_INITIALIZED"
        assert (await peer.call("binnacle-goodbye")).object["terminated"] is False
        assert registry.read_text() == ""


async def test_the_resources_of_a_conversation_are_those_of_its_folder(bn: Daemon) -> None:
    (bn.home / "one" / "AGENTS.md").write_text("Work in pairs.\n")

    async def ask(peer: Any, method: str, **params: Any) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer: dict[str, Any] = (await peer.post("/rpc", json=message)).json()
        return answer

    async def listed(peer: Any) -> set[str]:
        entries = (await ask(peer, "resources/list"))["result"]["resources"]
        return {entry["uri"] for entry in entries if entry["uri"].startswith("binnacle:")}

    async with bn.http(**{"X-Session-Id": "a"}) as a:
        before = await ask(a, "resources/read", uri="binnacle://status")
        assert before["result"]["contents"][0]["text"] == "Session not initialized. Call binnacle-set_agent first."
        assert (await ask(a, "resources/read", uri="binnacle://agents"))["error"]["code"] == -32002
        assert await listed(a) == {"binnacle://status"}
        await RpcPeer(a).call("binnacle-set_agent", path=str(bn.home / "one"))
        assert await listed(a) == {"binnacle://status", "binnacle://agents"}
        agents = await ask(a, "resources/read", uri="binnacle://agents")
        assert agents["result"]["contents"][0]["text"] == "Work in pairs.\n"
