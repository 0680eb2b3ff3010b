from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.answers.fit import Answers, object_parts
from mcp_agent.answers.reply import ToolReply
from mcp_agent.calls.call import Call, Caller
from mcp_agent.storage.artifact_store import ArtifactStore, Quotas
from registry.catalog import discover
from registry.gate import Access
from tests.support.daemon import Daemon
from tests.support.waiting import eventually
from tools.kit.results import Result


async def _call(daemon: Daemon, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await daemon.rpc("tools/call", name=tool, arguments=arguments)
    found: dict[str, Any] = answer["result"]["structuredContent"]
    return found


def _done(*arguments: str) -> bool:
    return subprocess.run(arguments, capture_output=True, check=False).returncode == 0


@pytest.fixture
def many(tmp_path: Path) -> Path:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(12_000):
        (folder / f"file number {number:05} with a long name").touch()
    return folder


async def test_a_large_result_is_cut_and_its_whole_is_reached_every_way(daemon: Daemon, many: Path) -> None:
    cut = await _call(daemon, "fs_list", path=str(many), max_entries=50_000)
    reference = cut["artifactRef"]
    assert cut["truncated"] is True
    # As many as fit: one more is some 160 bytes, twice.
    assert 2_000 < len(cut["entries"]) < 12_000
    assert cut["next"] == cut["entries"][-1]["path"]
    assert f'artifact_read {{"ref": "{reference}"}}' in cut["hint"]
    parts, cursor = [], None
    while True:
        part = await _call(daemon, "artifact_read", ref=reference, cursor=cursor, limit=300_000)
        parts.append(part["content"])
        cursor = part.get("nextCursor")
        if cursor is None:
            break
    whole = "".join(parts)
    assert len(json.loads(whole)["entries"]) == 12_000
    async with daemon.http() as http:
        got = await http.get(f"/artifacts/{reference.removeprefix('ax://')}")
    assert got.text == whole
    assert got.headers["content-type"] == "text/plain; charset=utf-8"
    assert got.headers["x-content-type-options"] == "nosniff"
    resource = (await daemon.rpc("resources/read", uri=reference))["result"]["contents"][0]
    rest = (await daemon.rpc("resources/read", uri=resource["_meta"]["next"]))["result"]["contents"][0]
    assert whole.startswith(resource["text"] + rest["text"])
    assert reference in [each["uri"] for each in (await daemon.rpc("resources/list"))["result"]["resources"]]
    read = await _call(daemon, "fs_read", path=reference, max_bytes=100)
    assert whole.startswith(read["content"])
    assert reference in daemon.cli("artifacts", "list").stdout
    assert daemon.cli("artifacts", "show", reference).stdout == whole
    assert daemon.cli("artifacts", "rm", reference).returncode == 0
    assert (await _call(daemon, "artifact_read", ref=reference))["error"]["code"] == "NOT_FOUND"


async def test_no_message_is_over_a_million_bytes(daemon: Daemon, many: Path) -> None:
    (many / "quotes").write_text('"\\\n' * 400_000)
    for form in ("json", "text"):
        for arguments in (
            {"name": "fs_list", "arguments": {"path": str(many), "max_entries": 50_000}},
            {"name": "fs_read", "arguments": {"path": str(many / "quotes"), "max_bytes": 2_000_000}},
        ):
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments}
            async with daemon.http(**{"X-MCP-Agent-Form": form}) as http:
                answer = await http.post("/mcp", json=message)
            assert len(answer.content) <= 1_000_000
            text = answer.json()["result"]["content"][0]["text"]
            # The rendering of the list is shorter than its JSON, and fits.
            assert ("ax://filesystem/" in text) != (form == "text" and arguments["name"] == "fs_list")


async def test_another_callers_artifact_is_not_there(daemon: Daemon, many: Path) -> None:
    reference = (await _call(daemon, "fs_list", path=str(many), max_entries=50_000))["artifactRef"]
    token = daemon.cli("token", "create", "guest").stdout.splitlines()[1]
    async with daemon.http(Authorization=f"Bearer {token}") as http:
        # A new token counts from the moment the daemon has seen its file.
        await eventually(lambda: http.get("/openapi.json"), lambda answer: answer.status_code != 401)
        got = await http.get(f"/artifacts/{reference.removeprefix('ax://')}")
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "fs_read", "arguments": {"path": reference}},
        }
        read = await http.post("/rpc", json=message)
    assert got.status_code == 404
    assert read.json()["result"]["structuredContent"]["error"]["code"] == "NOT_FOUND"


async def test_a_result_that_cannot_be_kept_still_arrives_and_says_so(daemon: Daemon, many: Path) -> None:
    await _call(daemon, "fs_list", path=str(many))
    state = next(path for path in daemon.home.rglob("audit") if path.is_dir()).parent
    disk = state / "artifacts"
    disk.mkdir(exist_ok=True)
    if not _done("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)):
        pytest.skip("no right to mount here")
    try:
        cut = await _call(daemon, "fs_list", path=str(many), max_entries=50_000)
        assert "could not be kept" in cut["hint"]
        assert "artifactRef" not in cut
        # Fewer fit where the path of the folder is longer.
        assert len(cut["entries"]) > 1_000
    finally:
        assert _done("umount", "-l", str(disk))


@pytest.mark.parametrize("tool", ["recover_text", "bash", "shell_start_session"])
async def test_no_error_is_over_a_million_bytes(daemon: Daemon, tool: str) -> None:
    """A caller that sends tens of thousands of bad arguments is told of the first, each with a path that fits."""
    every: dict[str, dict[str, Any]] = {
        "recover_text": {"ranges": [{"start_line": "one"} for _ in range(15_000)]},
        "bash": {"command": "true", "env": {f"{number} {'x' * 100}": "" for number in range(15_000)}},
        "shell_start_session": {"command": "true", "env": {"x" * 3_000_000: 7}},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": every[tool]}}
    async with daemon.http() as http:
        answer = await http.post("/rpc", json=message)
    assert answer.status_code == 200
    assert b"arguments." in answer.content
    assert len(answer.content) <= 1_000_000


class _Long(Result, frozen=True):
    """Takes a note whenever it is written out."""

    text: str
    notes: list[str]

    def render(self) -> str:
        self.notes.append("rendered")
        return self.text

    def summary(self) -> str:
        return "long"


def test_a_result_that_is_too_large_is_written_out_once(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, Quotas(10_000_000, 10_000_000, 60.0))
    catalog = discover()
    answers = Answers(store, lambda _: catalog.tools)
    call = Call("id", Caller("owner", Access(), "http", form="text"), "fs_read", {})
    budget = answers.budget(call, catalog.by_name.get("fs_read"), "auto")
    # The first is found too large on the event loop; the second takes long, and is written in a thread.
    for size in (240_000, 2_000_000):
        result = _Long("\x01" * size, [])
        left = answers.fit(ToolReply(result), budget)
        assert callable(left)
        fitted = left()
        assert (fitted.whole_bytes, result.notes) == (size, ["rendered"])


@pytest.mark.parametrize("count", [0, 1, 2, 50, 51, 999, 1_000, 1_001, 5_432, 70_001])
@pytest.mark.parametrize("others", [{}, {"path": "/srv", "truncated": True}])
def test_an_object_is_kept_as_it_is_and_can_be_searched_by_lines(count: int, others: dict[str, Any]) -> None:
    value = {**others, "rows": [{"id": number, "text": '},{"id":'} for number in range(count)]}
    written = b"".join(object_parts(value, "rows"))
    assert json.loads(written) == value
    assert written.count(b"\n") <= 1_002
    if 0 < count < 1_000:
        assert len(written.splitlines()) == count + 2
