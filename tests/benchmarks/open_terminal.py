"""Open WebUI looks at the processes of every open chat each second: what that costs, and what it does to others."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import quantiles

import orjson

from tests.benchmarks.http_client import HttpClient
from tests.benchmarks.processes import Program, mcp_agent, running, subject
from tests.benchmarks.rows import Bench, Goal, Meter, Row
from tests.benchmarks.subjects.polling_chats import CHATS, claims

_SESSIONS = 10
_TOKEN = "benchmark-token-of-32-characters"
_HEADERS = {"authorization": f"Bearer {_TOKEN}"}


def rows() -> list[Row]:
    polled = f"{CHATS} chats of Open WebUI that look at their processes each second"
    return [
        Row(
            "polling-processor",
            f"share of a core with {polled}",
            "no chats",
            "%",
            Goal(10.0, of="ours"),
            _shares,
            rounds=5,
        ),
        Row("polling-p95", f"95th percentile of a call beside {polled}", "no chats", "µs", Goal(2.0), _calls, rounds=7),
    ]


@contextmanager
def _shares(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    with ExitStack() as stack:
        program, base = _daemon(stack, bench)
        seconds = 2.0 if bench.is_quick else 5.0

        def measure() -> float:
            before, began = program.processor_s(), time.monotonic()
            time.sleep(seconds)
            # Of an idle daemon the clock of the kernel may see nothing at all.
            return max(program.processor_s() - before, 0.001) / (time.monotonic() - began) * 100

        yield partial(_beside, bench, base, measure), measure


@contextmanager
def _calls(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    file = bench.folder / "read.txt"
    file.write_text("A line of a text file.\n" * 40)
    with ExitStack() as stack:
        _, base = _daemon(stack, bench)
        client = HttpClient(f"{base}/tools/fs_read", _HEADERS)
        stack.callback(client.close)
        request = client.written(orjson.dumps({"path": str(file)}))
        seconds = 1.0 if bench.is_quick else 3.0

        def measure() -> float:
            taken = []
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                began = time.perf_counter()
                client.exchange(request)
                taken.append(time.perf_counter() - began)
            return quantiles(taken, n=20)[-1] * 1_000_000

        yield partial(_beside, bench, base, measure), measure


def _daemon(stack: ExitStack, bench: Bench) -> tuple[Program, str]:
    """A daemon with as many sessions as there may be, each in a chat of its own."""
    command = mcp_agent("serve", "--port", "0")
    program = stack.enter_context(running(command, bench.folder, environment={"MCP_AGENT_TOKEN": _TOKEN}))
    base: str = json.loads(program.line())["url"]
    for number in range(_SESSIONS):
        client = HttpClient(f"{base}/open-terminal/tools/shell_start_session", {**_HEADERS, **claims(number)})
        client.exchange(client.written(orjson.dumps({"command": "sleep 3600"})))
        client.close()
    return program, base


def _beside(bench: Bench, base: str, measure: Meter) -> float:
    """What `measure` gives while the chats are open."""
    with running([*subject("polling_chats"), base, _TOKEN], bench.folder) as chats:
        chats.line()
        return measure()
