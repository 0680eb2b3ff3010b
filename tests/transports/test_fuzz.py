"""Malformed messages over every wire: nothing breaks, nothing leaks, and the next good message is answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from tests.support.daemon import COMMAND, Daemon, environment, running
from tests.support.malformed import META, Malformed
from tests.support.waiting import eventually, within

_IS_LONG = bool(os.environ.get("MCP_AGENT_TEST_LONG"))
# Six wires: 50,000 messages in all when there is time for them.
_MESSAGES = 8_500 if _IS_LONG else 150
_AT_ONCE = 8
_PATIENCE_S = 1_500.0 if _IS_LONG else 60.0
# What a daemon may grow by once it has met every kind of message, and what sockets that still close may hold.
_MOST_GROWTH_KB = 12_000
# The watchers of our files open nine of theirs a moment after the start.
_MOST_DESCRIPTORS = 20

Send = Callable[[httpx2.AsyncClient, Malformed], Awaitable[int]]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for all wires, with the tools that only read: some of these messages are still calls."""
    home = tmp_path_factory.mktemp("home")
    (home / "a.txt").write_text("a")
    with running(home, "--profile", "read-only") as started:
        yield started


async def _mcp(http: httpx2.AsyncClient, source: Malformed, *, is_stateless: bool) -> int:
    headers, body = source.message(is_stateless=is_stateless)
    headers |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if not is_stateless:
        headers["Mcp-Session-Id"] = f"fuzz-{source.random.randrange(1_000)}-{'s' * 20}"
    if source.random.random() < 0.2:
        headers |= source.headers()
    verb = source.random.choices(["POST", "GET", "DELETE", "PUT"], [90, 5, 3, 2])[0]
    return await _status(http, verb, "/mcp", body, headers)


async def _handshake(http: httpx2.AsyncClient, source: Malformed) -> int:
    return await _mcp(http, source, is_stateless=False)


async def _stateless(http: httpx2.AsyncClient, source: Malformed) -> int:
    return await _mcp(http, source, is_stateless=True)


async def _rpc(http: httpx2.AsyncClient, source: Malformed) -> int:
    _, body = source.message(is_stateless=source.random.random() < 0.5)
    headers = {"Content-Type": "application/json"} | (source.headers() if source.random.random() < 0.2 else {})
    return await _status(http, "POST", "/rpc", body, headers)


async def _tools(http: httpx2.AsyncClient, source: Malformed) -> int:
    name = source.random.choice(["fs_read", "fs_list", "fs_raed", "", "%", "\x00", "ä", "a/b", "x" * 500])
    headers = {"Content-Type": "application/json"} | (source.headers() if source.random.random() < 0.2 else {})
    return await _status(http, "POST", f"/tools/{quote(name, safe='')}", source.arguments(), headers)


async def _status(http: httpx2.AsyncClient, verb: str, path: str, body: bytes, headers: dict[str, str]) -> int:
    async with http.stream(verb, path, content=body, headers=headers) as answer:
        # A stream may be the right answer, and an endless one: leaving it is part of the test.
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            await answer.aread()
        return answer.status_code


@pytest.mark.alone
@pytest.mark.parametrize("send", [_handshake, _stateless, _rpc, _tools])
async def test_malformed_requests_are_refused_and_leave_nothing(daemon: Daemon, send: Send) -> None:
    async with within(_PATIENCE_S):
        idle = _sockets(daemon.process.pid)
        await _sent(daemon, send, seed=1, count=_MESSAGES // 3)
        before = await _settled(daemon, idle)
        statuses = await _sent(daemon, send, seed=2, count=_MESSAGES - _MESSAGES // 3)
        after = await _settled(daemon, idle)
    assert [status for status in statuses if status >= 500] == []
    # Most of it must have been found out, or this test sends the wrong things.
    assert sum(status >= 400 for status in statuses) > len(statuses) / 3
    _check(daemon, before, after)


@pytest.mark.alone
async def test_malformed_messages_over_sse_are_refused_and_leave_nothing(daemon: Daemon) -> None:
    source = Malformed(3)
    sizes = []
    async with within(_PATIENCE_S):
        idle = _sockets(daemon.process.pid)
        for _ in range(3):
            for _ in range(_MESSAGES // 150):
                await _over_one_stream(daemon, source, 50)
            sizes.append(await _settled(daemon, idle))
    _check(daemon, sizes[0], sizes[-1])


async def _over_one_stream(daemon: Daemon, source: Malformed, count: int) -> None:
    async with daemon.http() as posting, daemon.http() as http, http.stream("GET", "/sse") as stream:
        lines = stream.aiter_lines()
        endpoint = await _data(lines)
        for _ in range(count):
            _, body = source.message(is_stateless=source.random.random() < 0.3)
            headers = {"Content-Type": "application/json"} | (source.headers() if source.random.random() < 0.2 else {})
            assert await _status(posting, "POST", endpoint, body, headers) < 500
        good = {"jsonrpc": "2.0", "id": "the last", "method": "ping"}
        assert (await posting.post(endpoint, json=good)).status_code == 202
        while not _answers(await _data(lines), "the last"):
            pass


@pytest.mark.alone
async def test_malformed_lines_over_stdio_are_answered_and_leave_nothing(home: Path) -> None:
    (home / "a.txt").write_text("a")
    source = Malformed(4)
    lines = []
    for index in range(_MESSAGES):
        _, body = source.message(is_stateless=index % 3 == 0)
        lines.append(body.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n")
    with (home / "stderr").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(COMMAND, "stdio", "--profile", "read-only", "--tools-file", str(home / "tools.json")),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env=environment(home),
            cwd=home,
            limit=4 * 1024 * 1024,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    async with within(_PATIENCE_S):
        grown = []
        for index in range(0, len(lines), _MESSAGES // 3):
            good = {"jsonrpc": "2.0", "id": f"good {index}", "method": "ping"}
            process.stdin.writelines([*lines[index : index + _MESSAGES // 3], json.dumps(good).encode() + b"\n"])
            await process.stdin.drain()
            while not _answers(await process.stdout.readline(), good["id"]):
                pass
            grown.append(_resident_kb(process.pid))
        descriptors = _descriptors(process.pid)
        process.stdin.close()
        await process.stdout.read()
        assert await process.wait() == 0
    assert grown[-1] - grown[0] < _MOST_GROWTH_KB
    assert descriptors < 32
    assert "Traceback" not in (home / "stderr").read_text()


async def _sent(daemon: Daemon, send: Send, *, seed: int, count: int) -> list[int]:
    """The statuses of `count` messages, several under way at a time."""

    async def some(number: int) -> list[int]:
        source = Malformed(seed * 1_000 + number)
        async with daemon.http() as http:
            return [await send(http, source) for _ in range(count // _AT_ONCE + 1)]

    return [status for statuses in await asyncio.gather(*map(some, range(_AT_ONCE))) for status in statuses]


async def _settled(daemon: Daemon, idle: int) -> tuple[int, int]:
    """The size of the daemon and its descriptors, once it has noticed who is gone: its sockets are about `idle`."""
    async with daemon.http() as http:
        answer = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert answer.json()["result"]["tools"] != []
        stateless = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"}
        discover: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}}
        assert (await http.post("/mcp", json=discover, headers=stateless)).status_code == 200
    await eventually(lambda: _sockets(daemon.process.pid), lambda count: count < idle + _MOST_DESCRIPTORS)
    return _resident_kb(daemon.process.pid), _descriptors(daemon.process.pid)


def _check(daemon: Daemon, before: tuple[int, int], after: tuple[int, int]) -> None:
    assert after[0] - before[0] < _MOST_GROWTH_KB
    assert after[1] - before[1] < _MOST_DESCRIPTORS
    log = daemon.stderr.read_text()
    assert "Traceback" not in log
    assert [line for line in daemon.log() if line["level"] == "error"] == []


async def _data(lines: Any) -> str:
    """The data of the next event."""
    async for line in lines:
        if line.startswith("data: "):
            found: str = line.removeprefix("data: ")
            return found
    pytest.fail("the stream ended")


def _answers(line: str | bytes, request_id: str) -> bool:
    """Whether a message, which is JSON in any case, is the answer to that request."""
    message = json.loads(line)
    return isinstance(message, dict) and message.get("id") == request_id


def _resident_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def _sockets(pid: int) -> int:
    """How many sockets a process has. One that closes meanwhile counts for nothing."""
    found = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(descriptor.readlink()).startswith("socket:")
    return found


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
