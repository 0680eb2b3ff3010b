"""What the models of known clients are sent: text, once, and no more of it than their client takes."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from mcp_agent.answers.budget import TEXT_CLIENTS
from mcp_agent.answers.reply import shorten_error
from mcp_agent.app import compose_daemon
from mcp_agent.calls.call import Call, Caller, Failure, Success
from mcp_agent.config import load
from mcp_agent.daemon import Daemon
from registry.gate import Access
from tests.support.daemon import Daemon as RunningDaemon

# What one result may have before the client itself cuts it, as measured; all others are sent 32,000 bytes.
_MEASURED = {
    "codex-mcp-client": 11_900,
    "@cline/core": 7_900,
    "qwen-cli-mcp-client-devbox": 24_900,
    "copilot-cli": 16_000,
    "github-copilot-developer": 16_000,
}
_PAD = "x" * 60
_NAMES = [client.name.replace("*", "-devbox") for client in TEXT_CLIENTS]


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Daemon]:
    folder = tmp_path / "host"
    folder.mkdir()
    flags = {"state_dir": str(folder / "state"), "tools_file": str(folder / "tools.json")}
    composed = compose_daemon(load({"command_undo": False, **flags}, {}), working_directory=folder)
    yield composed
    await composed.stop(0.5)
    composed.close()


async def _call(host: Daemon, client: str, tool: str, **arguments: Any) -> Any:
    caller = Caller("owner", Access(), "http", client)
    outcome = await host.dispatcher.call(Call("test", caller, tool, arguments))
    assert isinstance(outcome, Success), outcome
    return outcome.written


@pytest.mark.parametrize("client", [*_NAMES, "codex-mcp-client (via mcp-remote 0.1.37)", "Claude-AI (via mcp-remote)"])
async def test_a_noisy_command_is_shown_by_both_ends_within_what_the_client_takes(host: Daemon, client: str) -> None:
    shown = await _call(host, client, "shell_exec", command=f"seq -f 'line %06.0f {_PAD}' 1 10000; echo the end")
    most = _MEASURED.get(client.partition(" (via")[0], 32_000)
    # One of them shows its model JSON, and counts that.
    counted = shown.encode() if client != "@cline/core" else orjson.dumps(shown)
    assert most * 0.95 < len(counted) <= most
    lines = shown.split("\n")
    assert lines[0].startswith("[exit 0 · ")
    (gap,) = (number for number, line in enumerate(lines) if line.startswith("[… "))
    # Whole lines, the first and the last ones, and the gap says how to get those between them.
    assert lines[1:gap] == [f"line {number:06} {_PAD}" for number in range(1, gap)]
    tail = lines[gap + 1 : -2]
    assert tail == [f"line {number:06} {_PAD}" for number in range(10_001 - len(tail), 10_001)]
    assert lines[-2:] == ["the end", ""]
    assert f"start_line={gap + 1} end_line={10_001 - len(tail)}; search it: fs_grep base=ax://shell/" in lines[gap]


@pytest.mark.parametrize("client", _NAMES)
async def test_a_size_that_is_named_is_honoured_and_else_a_file_ends_within_what_the_client_takes(
    host: Daemon, client: str, tmp_path: Path
) -> None:
    text = "".join(f"line {number} {_PAD}\n" for number in range(1, 10_001))
    (tmp_path / "file").write_text(text)
    shown = await _call(host, client, "fs_read", path=str(tmp_path / "file"))
    most = _MEASURED.get(client, 32_000)
    counted = shown.encode() if client != "@cline/core" else orjson.dumps(shown)
    assert most * 0.95 < len(counted) <= most
    header, _, content = shown.partition("\n")
    assert f"go on with fs_read_range from line {content.count(chr(10)) + 1} " in header
    assert text.startswith(content)
    assert content.endswith("\n")
    asked = await _call(host, client, "fs_read", path=str(tmp_path / "file"), max_bytes=1_000_000)
    assert asked.partition("\n")[2] == text


async def test_a_refused_edit_names_the_argument_where_the_client_shows_its_value(host: Daemon, tmp_path: Path) -> None:
    """Gemini CLI and Qwen Code put all arguments of a failed call before their model."""
    file = tmp_path / "a.py"
    file.write_text("".join(f"def f{number}(x):\n    return x + {number}\n\n" for number in range(200)))
    operations = [
        {"type": "replace_first", "pattern": file.read_text().replace("f7(", "g7("), "replacement": "z" * 8_000},
    ]
    said = {}
    for client in ("claude-code", "gemini-cli-mcp-client", "qwen-cli-mcp-client-devbox"):
        caller = Caller("owner", Access(), "http", client)
        call = Call("test", caller, "fs_patch", {"path": str(file), "operations": operations})
        outcome = await host.dispatcher.call(call)
        assert isinstance(outcome, Failure)
        said[client] = str(outcome.written)
    claude, gemini, qwen = said.values()
    assert gemini == qwen
    assert "the text 'def f0(x):" in claude
    assert "operation 1: the text operations[0].pattern is not in " in gemini
    assert len(gemini) < min(len(claude), 700)
    # What differs is said all the same.
    assert "def g7(x):" in claude[-200:]
    assert gemini.endswith(claude[-100:])


@pytest.mark.parametrize("text", ["'" * 50_000, "x" * 50_000, "'a'\n" * 20_000, '"' + "\\" * 50_000])
def test_any_error_is_shortened(text: str) -> None:
    assert len(shorten_error(text, {"a": text, "b": [{"c": text}] * 1_000})) <= 1_000


async def test_a_client_that_would_show_the_bytes_of_an_image_is_sent_a_sentence(host: Daemon, tmp_path: Path) -> None:
    dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    (tmp_path / "dot.png").write_bytes(base64.b64decode(dot))
    sent = {
        client: orjson.loads((await _call(host, client, "fs_read", path=str(tmp_path / "dot.png"))).encoded)
        for client in ("claude-code", "@cline/core")
    }
    (text, image), (same, sentence) = sent.values()
    assert (image["type"], same) == ("image", text)
    assert sentence == {
        "type": "text",
        "text": "[image/png, 70 bytes, is left out: this client shows its model text alone]",
    }


@pytest.mark.parametrize("client", ["mcp", "", "langchain", "codex", "mcp-remote", "claude-code-x"])
async def test_a_program_is_sent_the_object_with_the_defaults_of_the_tool(host: Daemon, client: str) -> None:
    written = await _call(host, client, "shell_exec", command="seq 1 60000")
    assert len(orjson.loads(written)["stdout"]) == 348_894


async def test_the_setting_says_how_much_text_a_model_is_sent(tmp_path: Path) -> None:
    flags = {"state_dir": str(tmp_path / "state"), "tools_file": str(tmp_path / "tools.json"), "text_bytes": "10000"}
    composed = compose_daemon(load({"command_undo": False, **flags}, {}), working_directory=tmp_path)
    try:
        shown = await _call(composed, "codex-mcp-client", "shell_exec", command="seq 1 20000")
        shorter = await _call(composed, "@cline/core", "shell_exec", command="seq 1 20000")
    finally:
        await composed.stop(0.5)
        composed.close()
    assert 9_500 < len(shown.encode()) <= 10_000
    assert 7_500 < len(orjson.dumps(shorter)) <= 7_900


@pytest.mark.parametrize(("client", "most_lines"), [("opencode", 1_990), ("qwen-cli-mcp-client-devbox", 990)])
async def test_a_client_that_counts_lines_is_sent_no_more_of_them(host: Daemon, client: str, most_lines: int) -> None:
    shown = await _call(host, client, "shell_exec", command="seq 1 20000; echo the end")
    assert most_lines * 0.95 < shown.count("\n") < most_lines
    assert shown.endswith("\nthe end\n")
    assert "start_line=" in shown


async def test_nobody_is_told_to_use_a_tool_that_is_off(host: Daemon) -> None:
    caller = Caller("owner", Access("lean"), "http", "codex-mcp-client")
    outcome = await host.dispatcher.call(Call("test", caller, "shell_exec", {"command": "seq 1 20000"}))
    assert isinstance(outcome, Success)
    assert isinstance(outcome.written, str)
    assert "go on with fs_read_range path=ax://shell/" in outcome.written
    assert "artifact_read" not in outcome.written
    wide = Call(
        "test", Caller("owner", Access("pruner"), "http", "codex-mcp-client"), "bash", {"command": "seq 1 20000"}
    )
    outcome = await host.dispatcher.call(wide)
    assert isinstance(outcome, Success)
    assert isinstance(outcome.written, str)
    assert "fs_read_range" not in outcome.written
    assert "Get all of it with GET /artifacts/pruning/" in outcome.written


@pytest.mark.parametrize(
    ("name", "is_text"),
    [
        ("copilot-cli", True),
        ("@cline/core", True),
        ("qwen-cli-mcp-client-devbox", True),
        ("opencode (via mcp-remote 0.1.37)", True),
        ("mcp", False),
    ],
)
async def test_a_client_is_known_by_the_name_in_its_handshake(
    shared_daemon: RunningDaemon, tmp_path: Path, name: str, is_text: bool
) -> None:
    (tmp_path / "x").write_text("text\n")
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}
    async with shared_daemon.http(Accept="application/json, text/event-stream") as http:
        begun = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        http.headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
        read = {"name": "fs_read", "arguments": {"path": str(tmp_path / "x")}}
        answer = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": read})
        listed = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {}})
    result = answer.json()["result"]
    assert ("structuredContent" not in result) is is_text
    assert result["content"][0]["text"].endswith("\ntext\n") is is_text
    assert not any("_meta" in tool for tool in listed.json()["result"]["tools"])


async def test_claude_code_is_told_that_it_can_take_long_results(shared_daemon: RunningDaemon) -> None:
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "claude-code", "version": "2"},
    }
    async with shared_daemon.http(Accept="application/json, text/event-stream") as http:
        begun = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        http.headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
        listed = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {}})
    hints = [tool["_meta"]["anthropic/maxResultSizeChars"] for tool in listed.json()["result"]["tools"]]
    assert set(hints) == {200_000}
    assert all(tool["_meta"]["anthropic/alwaysLoad"] is True for tool in listed.json()["result"]["tools"])


async def test_copilot_is_served_with_a_handshake(shared_daemon: RunningDaemon) -> None:
    """Without one it gives up when the daemon is restarted."""
    stateless = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"}
    for name, status in (("copilot-cli", 404), ("claude-code", 200)):
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}
        async with shared_daemon.http(Accept="application/json, text/event-stream") as http:
            answer = await http.post("/mcp", json=message, headers=stateless)
        assert answer.status_code == status
