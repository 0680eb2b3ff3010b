"""mcpo, which puts MCP servers before programs that speak OpenAPI, in front of the daemon."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from tests.support import programs
from tests.support.daemon import Daemon
from tests.support.waiting import PATIENCE_S, eventually
from tools.files.revisions import rev_of_bytes

_START_S = 60.0


@asynccontextmanager
async def _in_front_of(daemon: Daemon, kind: str, path: str) -> AsyncIterator[httpx2.AsyncClient]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--host", "127.0.0.1", "--port", str(port), "--type", kind, "--header", json.dumps(daemon.headers)]
    process = await asyncio.create_subprocess_exec(
        *(programs.mcpo(), "-c", "from mcpo import app; app()", *options, "--", daemon.url + path),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client:
            await eventually(lambda: _answers(client, process), within_s=_START_S)
            yield client
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _answers(client: httpx2.AsyncClient, process: asyncio.subprocess.Process) -> bool:
    assert process.returncode is None, "mcpo did not start"
    try:
        await client.get("/openapi.json")
    except httpx2.ConnectError:
        return False
    return True


@pytest.mark.parametrize(("kind", "path"), [("sse", "/sse"), ("streamable-http", "/mcp")])
async def test_mcpo_offers_our_tools(shared_daemon: Daemon, tmp_path: Path, kind: str, path: str) -> None:
    file = tmp_path / "a.txt"
    file.write_text("één\n")
    names = [tool["name"] for tool in (await shared_daemon.rpc("tools/list"))["result"]["tools"]]
    async with _in_front_of(shared_daemon, kind, path) as client:
        described = (await client.get("/openapi.json")).json()
        read = await client.post("/fs_read", json={"path": str(file)})
        missing = await client.post("/fs_read", json={"path": "/nowhere/at-all"})
    assert sorted(described["paths"]) == sorted(f"/{name}" for name in names)
    assert read.json() == {"path": str(file), "content": "één\n", "size": 6, "rev": rev_of_bytes(file.read_bytes())}
    assert missing.status_code == 500
    assert "NOT_FOUND" in missing.text
