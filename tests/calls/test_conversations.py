"""Where the relative paths of a conversation begin: in the folder of its client, where that is on this machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import Implementation, ListRootsResult, Root

from tests.support.daemon import COMMAND, Daemon, environment
from tests.support.peers import official
from tests.support.waiting import PATIENCE_S, eventually

_FORM = {"X-MCP-Agent-Form": "text"}


async def _pwd(http: httpx2.AsyncClient, folder: str, **arguments: Any) -> str:
    params = {"name": "shell_exec", "arguments": {"command": "pwd", **arguments}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = await http.post("/mcp", json=message, headers={**_FORM, "X-MCP-Agent-Folder": folder})
    text: str = answer.json()["result"]["content"][0]["text"]
    return text


async def test_the_first_result_says_which_folder_counts_and_so_does_the_first_after_a_change(
    daemon: Daemon, tmp_path: Path
) -> None:
    ours, other = tmp_path / "our project", tmp_path / "other"
    ours.mkdir()
    other.mkdir()
    named = str(ours).replace(" ", "%20")
    async with daemon.http(**{"X-Session-Id": "one"}) as http:
        said = [await _pwd(http, folder) for folder in (named, named, str(other), "/no/such/folder", named)]
        elsewhere = await _pwd(http, named, cwd=str(other))
    own = daemon.home
    assert [each.splitlines()[0] for each in said if not each.startswith("[exit")] == [
        f"[relative paths begin in {ours}]",
        f"[relative paths begin in {other}]",
        f"[relative paths begin in {own}, as /no/such/folder is not on this machine]",
        f"[relative paths begin in {ours}]",
    ]
    assert [each.splitlines()[-1] for each in said] == list(map(str, (ours, ours, other, own, ours)))
    assert elsewhere.splitlines()[-1] == str(other), "cwd in a call wins"


async def test_files_are_written_where_the_client_works_and_the_daemons_own_folder_stays(
    daemon: Daemon, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    server = StdioServerParameters(
        command=COMMAND,
        args=["stdio", "--tools-file", str(daemon.tools_json), "--attach"],
        env=environment(daemon.home),
        cwd=folder,
    )
    async with official(server, "legacy") as peer:
        written = (await peer.call("fs_write", path="notes.txt", content="x\n")).object
        refused = (await peer.call("fs_delete", path=str(daemon.home), recursive=True)).object
    assert (folder / "notes.txt").read_text() == "x\n"
    assert written["notes"] == [f"relative paths begin in {folder}"]
    assert refused["error"]["code"] == "DENIED"


async def test_the_first_root_of_a_client_counts_and_follows_its_changes(daemon: Daemon, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two & more")]
    for folder in folders:
        folder.mkdir()
    roots = [folders[0]]

    async def list_roots(context: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=each.as_uri()) for each in roots])  # type: ignore[arg-type]  # a str

    async with (
        daemon.http() as http,
        Client(
            streamable_http_client(f"{daemon.url}/mcp", http_client=http),
            mode="legacy",
            list_roots_callback=list_roots,
            client_info=Implementation(name="a-test", version="1"),
            read_timeout_seconds=PATIENCE_S,
        ) as client,
    ):

        async def where() -> str:
            result = await client.call_tool("shell_exec", {"command": "pwd"})
            return str(json.loads(result.content[0].text)["stdout"]).strip()  # type: ignore[union-attr]  # it is text

        assert await eventually(where, lambda found: found == str(folders[0]))
        roots[0] = folders[1]
        with pytest.warns(MCPDeprecationWarning):
            await client.send_roots_list_changed()
        assert await eventually(where, lambda found: found == str(folders[1]))


def test_the_header_helper_names_the_folder_and_the_process_of_the_client_that_runs_it(shared_daemon: Daemon) -> None:
    """Claude Code runs it with a shell, in the folder of its settings."""
    line = f"cd / && {COMMAND} token header; true"
    printed = [
        subprocess.run(["sh", "-c", line], capture_output=True, env=environment(shared_daemon.home), check=True).stdout
        for _ in range(2)
    ]
    first, second = map(json.loads, printed)
    assert first == second, "both are of this process"
    assert unquote(first["x-mcp-agent-folder"]) == str(Path.cwd())
    assert len(first["X-Session-Id"]) == 32


@pytest.mark.parametrize("folder", ["relative", "", "/etc/hostname", "%00", "/%ff"])
async def test_a_folder_that_is_none_changes_nothing(shared_daemon: Daemon, folder: str) -> None:
    async with shared_daemon.http(**{"X-Session-Id": f"odd-{folder}"}) as http:
        assert (await _pwd(http, folder)).splitlines()[-1] == str(shared_daemon.home)
