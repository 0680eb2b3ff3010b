"""What tools.json adds: a call through a mounted server, a wrapped program, and what idle mounts weigh."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import orjson

from tests.benchmarks.http_client import HttpClient
from tests.benchmarks.mcp_messages import Era, ask, http_call, message, opened_http
from tests.benchmarks.processes import Program, mcp_agent, running, subject
from tests.benchmarks.rows import Bench, Goal, Meter, Row
from tests.support import ROOT

_ERA: Era = "2025-11-25"
_TOKEN = "benchmark-token-of-32-characters"
_SERVER = [sys.executable, str(ROOT / "tests" / "support" / "small_server.py")]
_MOUNTS = 10
_SETTLE_S = 1.0


def rows() -> list[Row]:
    return [
        Row(
            "mount-call-sdk",
            "a call through a mounted stdio server of the official package over /mcp, latency",
            "the official client, directly",
            "µs",
            Goal(1.4),
            _mount_call([*subject("mcp_echo"), "stdio"]),
        ),
        Row(
            "mount-call-least",
            "the same through a server that does as little as possible",
            "the official client, directly",
            "µs",
            Goal(1.3),
            _mount_call(_SERVER),
        ),
        Row(
            "wrap-true",
            "a call of a wrapped `true` over /mcp, latency",
            "subprocess.run and a trivial call",
            "µs",
            Goal(1.4),
            _wrapped_true,
        ),
        Row(
            "mount-memory",
            f"serve: resident memory with {_MOUNTS} idle mounts, above that of none",
            "serve without mounts",
            "MB",
            Goal(60.0, of="ours"),
            _mount_memory,
            rounds=3,
        ),
    ]


def _mount_call(server: list[str]) -> Callable[[Bench], AbstractContextManager[tuple[Meter, Meter]]]:
    @contextmanager
    def measure(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
        with ExitStack() as stack:
            direct = stack.enter_context(running([*subject("official_client"), *server], bench.folder))
            categories = [{"id": "small", "mount": {"command": server[0], "args": server[1:]}}]
            client = _client_of(stack, bench, categories, {"echo"})
            request = http_call(client, _ERA, "echo", {"text": "hello"})
            yield (
                _latency(lambda: client.exchange(request).body, b"hello", bench),
                lambda: float(ask(direct, str(bench.round_s).encode())),
            )

    return measure


@contextmanager
def _wrapped_true(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    with ExitStack() as stack:
        client = _client_of(stack, bench, [{"id": "cli", "wrap": {"id": "true_run", "command": "true"}}], {"true_run"})
        request = http_call(client, _ERA, "true_run", {"args": []})
        trivial = http_call(client, _ERA, "fs_list", {"path": str(bench.folder), "max_entries": 1})

        def both() -> bytes:
            subprocess.run(["true"], stdin=subprocess.DEVNULL, capture_output=True, check=True)
            return client.exchange(trivial).body

        yield (
            _latency(lambda: client.exchange(request).body, b"exit_code", bench),
            _latency(both, b"entries", bench),
        )


@contextmanager
def _mount_memory(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    mounts = [
        {"id": f"m{number}", "mount": {"command": _SERVER[0], "args": _SERVER[1:], "only": ["echo"]}}
        for number in range(_MOUNTS)
    ]

    def weigh(categories: list[Any], tools: set[str]) -> float:
        with ExitStack() as stack:
            program, client = _daemon(stack, bench, categories, tools)
            for name in tools:
                # A server is started at its first use.
                client.exchange(http_call(client, _ERA, name, {"text": "hello"}))
            program.wait_until_loaded("watchfiles")
            time.sleep(_SETTLE_S)
            return program.resident_mb()

    names = {"echo", *(f"m{number}_echo" for number in range(1, _MOUNTS))}
    yield lambda: weigh(mounts, names) - weigh([], {"fs_read"}), lambda: weigh([], {"fs_read"})


def _client_of(stack: ExitStack, bench: Bench, categories: list[Any], tools: set[str]) -> HttpClient:
    return _daemon(stack, bench, categories, tools)[1]


def _daemon(stack: ExitStack, bench: Bench, categories: list[Any], tools: set[str]) -> tuple[Program, HttpClient]:
    """A daemon with these categories, once it lists `tools`, and a client of it."""
    file = bench.folder / "tools.json"
    file.write_text(json.dumps({"profiles": [{"id": "default", "categories": categories}]}))
    command = mcp_agent("serve", "--port", "0", "--tools-file", str(file))
    program = stack.enter_context(running(command, bench.folder, environment={"MCP_AGENT_TOKEN": _TOKEN}))
    url = f"{orjson.loads(program.line())['url']}/mcp"
    while True:
        # A client anew each time: one that knows an older list is told of the change in its next answer.
        client = opened_http(url, _ERA, _TOKEN)
        listed = client.exchange(client.written(message("tools/list", request_id=1))).body
        if tools <= {each["name"] for each in orjson.loads(listed)["result"]["tools"]}:
            break
        client.close()
        time.sleep(0.05)
    stack.callback(client.close)
    return program, client


def _latency(call: Callable[[], bytes], expected: bytes, bench: Bench) -> Meter:
    if expected not in (answer := call()):
        raise RuntimeError(f"this is no answer: {answer!r}")

    def measure() -> float:
        count, began = 0, time.perf_counter()
        while time.perf_counter() - began < bench.round_s:
            call()
            count += 1
        return (time.perf_counter() - began) / count * 1e6

    return measure
