"""The daemon itself: what a call costs, how soon it is there, and what it weighs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path

import orjson

from tests.benchmarks.http_client import HttpClient
from tests.benchmarks.mcp_messages import Era, ask, http_call, message, open_stdio, opened_http, unopened_http
from tests.benchmarks.processes import Program, mcp_agent, running, subject
from tests.benchmarks.rows import Bench, Goal, Meter, Row

_TOKEN = "benchmark-token-of-32-characters"
_SETTLE_S = 1.0
_LINE = "A line of a text file that is sixty-four bytes long, all told."
_TEXT = f"{_LINE}\n\n" * 16

_BARE = "bare Starlette + uvicorn"
_MCP = "mcp 2.3 low-level server"

# Starts one side, for as long as the stack is open, and gives what measures it.
Contestant = Callable[[ExitStack, Bench], Meter]


def rows() -> list[Row]:
    return [
        *_call_rows("2025-11-25", ""),
        *_call_rows("2026-07-28", "-2026"),
        *_read_rows(),
        *_start_rows(),
        Row(
            name="serve-memory",
            what="serve: resident memory when idle",
            against=_BARE,
            unit="MB",
            goal=Goal(55.0, of="ours"),
            contest=_between(_our_memory, _bare_memory),
            rounds=3,
        ),
    ]


def _call_rows(era: Era, suffix: str) -> list[Row]:
    what = f"processor time of a call of a trivial tool over /mcp, {era}"
    ours = partial(_our_call, era)
    return [
        Row(f"call-bare{suffix}", what, _BARE, "µs", Goal(1.6), _between(ours, partial(_bare_call, era))),
        Row(f"call-mcp{suffix}", what, _MCP, "µs", Goal(0.3), _between(ours, partial(_mcp_call, era, "http"))),
        Row(
            f"call-mcp-json{suffix}",
            what,
            f"{_MCP}, plain JSON",
            "µs",
            Goal(0.3),
            _between(ours, partial(_mcp_call, era, "json")),
        ),
    ]


def _read_rows() -> list[Row]:
    what, against, goal = "fs_read of 1 KB, one client, over", f"{_MCP}, a trivial tool", Goal(2.0, is_ceiling=False)
    return [
        Row(
            "read-http", f"{what} /mcp", against, "calls/s", goal, _between(_our_reads_over_http, _mcp_calls_over_http)
        ),
        Row(
            "read-stdio",
            f"{what} stdio",
            against,
            "calls/s",
            goal,
            _between(_our_reads_over_stdio, _mcp_calls_over_stdio),
        ),
    ]


def _start_rows() -> list[Row]:
    listed, ready = _between(_our_stdio_start, _mcp_start), _between(_our_start, _bare_start)
    return [
        Row("stdio-start", "stdio: spawn → answered tools/list", _MCP, "ms", Goal(0.35), listed, rounds=9),
        Row("serve-start", "serve: spawn → ready", _BARE, "ms", Goal(1.5), ready, rounds=15),
    ]


def _between(ours: Contestant, theirs: Contestant) -> Callable[[Bench], AbstractContextManager[tuple[Meter, Meter]]]:
    @contextmanager
    def contest(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
        with ExitStack() as stack:
            yield ours(stack, bench), theirs(stack, bench)

    return contest


def _our_call(era: Era, stack: ExitStack, bench: Bench) -> Meter:
    program = stack.enter_context(running([*subject("echo_daemon"), _TOKEN], bench.folder))
    return _processor_time(program, opened_http(_url(program), era, _TOKEN), era, bench)


def _mcp_call(era: Era, wire: str, stack: ExitStack, bench: Bench) -> Meter:
    program = stack.enter_context(running([*subject("mcp_echo"), wire], bench.folder))
    return _processor_time(program, opened_http(_url(program), era, _TOKEN), era, bench)


def _bare_call(era: Era, stack: ExitStack, bench: Bench) -> Meter:
    program = stack.enter_context(running(subject("bare_http"), bench.folder))
    client = unopened_http(_url(program), era, _TOKEN)
    if era == "2025-11-25":
        client.headers["mcp-session-id"] = "an id that is read and not looked at"
    return _processor_time(program, client, era, bench)


def processor_time(
    stack: ExitStack, bench: Bench, tool: str, arguments: Sequence[dict[str, str]], command: Sequence[str] = ()
) -> Meter:
    """Microseconds of our daemon's processor time for a call of `tool`, with one of `arguments` after the other.

    `command` starts another daemon than the usual one.
    """
    program = stack.enter_context(running([*(command or subject("echo_daemon")), _TOKEN], bench.folder))
    client = opened_http(_url(program), "2025-11-25", _TOKEN)
    requests = [http_call(client, "2025-11-25", tool, each) for each in arguments]
    if orjson.loads(client.exchange(requests[0]).body)["result"]["isError"]:
        raise RuntimeError(f"{tool} does not answer")
    turns = itertools.cycle(requests)

    def measure() -> float:
        before = program.processor_s()
        calls = _calls(lambda: client.exchange(next(turns)), bench.round_s)
        return (program.processor_s() - before) / calls * 1e6

    return measure


def _processor_time(program: Program, client: HttpClient, era: Era, bench: Bench) -> Meter:
    """Microseconds of the server's processor time for a call, over as many calls as fit into a round."""
    request = http_call(client, era, "echo", {"text": "hello"})
    said = client.exchange(request).body
    # As the last event of a stream, or as it is.
    answer = orjson.loads(said.rpartition(b"data: ")[2])
    if answer["result"]["structuredContent"] != {"text": "hello"}:
        raise RuntimeError(f"this is no echo: {answer}")

    def measure() -> float:
        before, used, calls = program.processor_s(), 0.0, 0
        # The clock has steps of 10 ms: a round in which the machine stood still is made longer.
        while not used:
            calls += _calls(lambda: client.exchange(request), bench.round_s)
            used = program.processor_s() - before
        return used / calls * 1e6

    return measure


def _our_reads_over_http(stack: ExitStack, bench: Bench) -> Meter:
    command = [*subject("echo_daemon"), _TOKEN]
    return _http_rate(stack, bench, command, "fs_read", {"path": str(_kilobyte(bench))})


def _our_reads_over_stdio(stack: ExitStack, bench: Bench) -> Meter:
    return _stdio_rate(stack, bench, mcp_agent("stdio"), "fs_read", {"path": str(_kilobyte(bench))})


def _mcp_calls_over_http(stack: ExitStack, bench: Bench) -> Meter:
    return _http_rate(stack, bench, [*subject("mcp_echo"), "http"], "echo", {"text": _LINE})


def _mcp_calls_over_stdio(stack: ExitStack, bench: Bench) -> Meter:
    return _stdio_rate(stack, bench, [*subject("mcp_echo"), "stdio"], "echo", {"text": _LINE})


def _http_rate(stack: ExitStack, bench: Bench, command: Sequence[str], tool: str, arguments: dict[str, str]) -> Meter:
    program = stack.enter_context(running(command, bench.folder))
    client = opened_http(_url(program), "2025-11-25", _TOKEN)
    request = http_call(client, "2025-11-25", tool, arguments)
    return _calls_per_second(lambda: client.exchange(request).body, bench)


def _stdio_rate(stack: ExitStack, bench: Bench, command: Sequence[str], tool: str, arguments: dict[str, str]) -> Meter:
    program = stack.enter_context(running(command, bench.folder))
    open_stdio(program)
    request = message("tools/call", {"name": tool, "arguments": arguments}, request_id=2)
    return _calls_per_second(lambda: ask(program, request), bench)


def _calls_per_second(call: Callable[[], bytes], bench: Bench) -> Meter:
    answer = call()
    if _LINE.encode() not in answer:
        raise RuntimeError(f"this is not the text: {answer!r}")

    def measure() -> float:
        started = time.perf_counter()
        calls = _calls(call, bench.round_s)
        return calls / (time.perf_counter() - started)

    return measure


def _our_stdio_start(stack: ExitStack, bench: Bench) -> Meter:
    return _until_listed(mcp_agent("stdio"), bench)


def _mcp_start(stack: ExitStack, bench: Bench) -> Meter:
    return _until_listed([*subject("mcp_echo"), "stdio"], bench)


def _until_listed(command: Sequence[str], bench: Bench) -> Meter:
    def measure() -> float:
        started = time.perf_counter()
        with running(command, bench.folder) as program:
            open_stdio(program)
            answer = ask(program, message("tools/list", {}, request_id=2))
            took = time.perf_counter() - started
        if not orjson.loads(answer)["result"]["tools"]:
            raise RuntimeError(f"there are no tools: {answer.decode()}")
        return took * 1000

    return measure


def _our_start(stack: ExitStack, bench: Bench) -> Meter:
    return _until_ready(mcp_agent("serve", "--port", "0"), bench)


def _bare_start(stack: ExitStack, bench: Bench) -> Meter:
    return _until_ready(subject("bare_http"), bench)


def _until_ready(command: Sequence[str], bench: Bench) -> Meter:
    def measure() -> float:
        started = time.perf_counter()
        with running(command, bench.folder) as program:
            program.line()
            return (time.perf_counter() - started) * 1000

    return measure


def _our_memory(stack: ExitStack, bench: Bench) -> Meter:
    # The watcher of tools.json is loaded after the ready line, and belongs to what an idle daemon is.
    return _resident(mcp_agent("serve", "--port", "0"), bench, loads="watchfiles")


def _bare_memory(stack: ExitStack, bench: Bench) -> Meter:
    return _resident(subject("bare_http"), bench)


def _resident(command: Sequence[str], bench: Bench, loads: str | None = None) -> Meter:
    def measure() -> float:
        with running(command, bench.folder) as program:
            program.line()
            if loads is not None:
                program.wait_until_loaded(loads)
            time.sleep(_SETTLE_S)
            return program.resident_mb()

    return measure


def _calls(call: Callable[[], object], seconds: float) -> int:
    """How many calls, one after the other, fit into so many seconds; one at least."""
    deadline = time.perf_counter() + seconds
    count = 0
    while True:
        call()
        count += 1
        if time.perf_counter() >= deadline:
            return count


def _url(program: Program) -> str:
    return program.line().decode().strip()


def _kilobyte(bench: Bench) -> Path:
    path = bench.folder / "kilobyte.txt"
    path.write_text(_TEXT)
    return path
