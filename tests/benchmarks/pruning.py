"""What pruning costs: the engine beside one look at every word, and `read` with a question beside `read` without."""

from __future__ import annotations

import itertools
import os
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import httpx2
import orjson
from anyio.from_thread import start_blocking_portal
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from tests.benchmarks.http_client import HttpClient
from tests.benchmarks.mcp_messages import http_call, opened_http
from tests.benchmarks.processes import running, subject
from tests.benchmarks.rows import Bench, Goal, Meter, Row
from tools.pruning.engine import prune

_TOKEN = "benchmark-token-of-32-characters"
_ERA: Final = "2025-11-25"
_QUESTION = "how are the arguments of a subparser checked, and where does the error message come from?"
_LINES = 10_000
_READ_LINES = 3_000
# More than there are rounds, so that every text is new to the daemon.
_FILES = 40

Contest = Callable[[Bench], AbstractContextManager[tuple[Meter, Meter]]]


def rows() -> list[Row]:
    words = r"re.findall(r'\w+')"
    return [
        Row("prune-code", "processor time of pruning 10,000 lines of code", words, "ms", Goal(6.0), _engine(_code)),
        Row("prune-docs", "processor time of pruning 10,000 lines of a manual", words, "ms", Goal(6.0), _engine(_docs)),
        Row("prune-log", "processor time of pruning 10,000 lines of a log", words, "ms", Goal(6.0), _engine(_log)),
        Row(
            "prune-beat",
            "longest wait of an echo while /rpc prunes 2 MB of log",
            "with nothing else to do",
            "ms",
            Goal(20.0, of="ours"),
            _beating,
            5,
        ),
        Row("read-question", "read of 3,000 lines with a question, /mcp", "without", "ms", Goal(3.0), _reading, 31),
        Row(
            "read-question-official",
            "read of 3,000 lines with a question, official client",
            "without",
            "ms",
            Goal(3.0),
            _reading_officially,
            31,
        ),
        Row(
            "read-again",
            "read of the same 3,000 lines with another question, /mcp",
            "without",
            "ms",
            Goal(3.0),
            _reading_again,
            31,
        ),
    ]


def _engine(text_of: Callable[[int], str]) -> Contest:
    @contextmanager
    def contest(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
        text = text_of(_LINES)
        # The engine remembers the last few texts, and here each is its first.
        copies = (f"{number}\n{text}" for number in itertools.count())
        yield _processor_ms(lambda: prune(next(copies), _QUESTION)), _processor_ms(lambda: re.findall(r"\w+", text))

    return contest


@contextmanager
def _reading(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    """One daemon and one client; each call reads a file that has not been read before."""
    with _reader(bench) as client:
        asked = [{"file_path": f"{number}.py", "context_focus_question": _QUESTION} for number in range(_FILES)]
        plain = [{"file_path": f"{number}.py"} for number in range(_FILES, 2 * _FILES)]
        yield _reads(client, asked), _reads(client, plain)


@contextmanager
def _reading_officially(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    """As before, but with the client that programs use, which reads and checks what it gets."""
    with (
        _serving(bench) as url,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(_official(url)) as session,
    ):
        numbers = itertools.count()

        async def read(**question: str) -> float:
            call = {"file_path": f"{next(numbers) % (2 * _FILES)}.py", **question}
            started = time.perf_counter()
            answer = await session.call_tool("read", call)
            took = time.perf_counter() - started
            if answer.is_error or (answer.structured_content or {})["pruning"]["applied"] is not bool(question):
                raise RuntimeError(f"this is not what was asked for: {answer}"[:300])
            return took * 1000

        asked = partial(read, context_focus_question=_QUESTION)
        yield partial(portal.call, asked), partial(portal.call, read)


@asynccontextmanager
async def _official(url: str) -> AsyncIterator[ClientSession]:
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {_TOKEN}"}, timeout=30) as http,
        streamable_http_client(url, http_client=http) as streams,
        ClientSession(*streams[:2]) as session,
    ):
        await session.initialize()
        yield session


@contextmanager
def _reading_again(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    """As before, but each call reads the same file; no question is asked twice."""
    with _reader(bench) as client:
        questions = [f"{_QUESTION} And where is the {ordinal}th one?" for ordinal in range(_FILES)]
        asked = [{"file_path": "0.py", "context_focus_question": question} for question in questions]
        yield _reads(client, asked), _reads(client, [{"file_path": "1.py"}])


@contextmanager
def _reader(bench: Bench) -> Iterator[HttpClient]:
    with _serving(bench) as url:
        yield opened_http(url, _ERA, _TOKEN)


@contextmanager
def _serving(bench: Bench) -> Iterator[str]:
    """The URL of a daemon in a folder of files, each with a first line of its own."""
    lines = _code(_READ_LINES).split("\n")
    for number in range(2 * _FILES):
        (bench.folder / f"{number}.py").write_text("\n".join([f"# copy {number}", *lines[1:]]))
    with running([*subject("echo_daemon"), _TOKEN], bench.folder) as program:
        yield program.line().decode().strip()


@contextmanager
def _beating(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    """One daemon; a client that calls without pause, and another that has a log pruned or does nothing for as long."""
    log = _log(50_000)[:1_999_000]
    options = {"max_prune_ratio": 0.7, "min_keep_lines": 20, "timeout_ms": 1500, "annotate_lines": False}
    asked = {"text": log, "goal_hint": "why did it fail?", "source_type": "logs"}
    with running([*subject("echo_daemon"), _TOKEN], bench.folder) as program:
        url = program.line().decode().strip()
        client = opened_http(url, _ERA, _TOKEN)
        echo = http_call(client, _ERA, "echo", {"text": "hello"})
        other = HttpClient(url.replace("/mcp", "/rpc"), {"authorization": f"Bearer {_TOKEN}"})
        arguments = {**asked, "options": {**options, "include_markers": True}}
        prune_log = http_call(other, _ERA, "prune_text", arguments)

        def longest_wait(work: Callable[[], object]) -> float:
            with ThreadPoolExecutor(1) as pool:
                working = pool.submit(work)
                waits: list[float] = []
                while not working.done():
                    started = time.perf_counter()
                    client.exchange(echo)
                    waits.append(time.perf_counter() - started)
            working.result()
            return max(waits) * 1000

        yield lambda: longest_wait(lambda: other.exchange(prune_log)), lambda: longest_wait(lambda: time.sleep(0.2))


def _reads(client: HttpClient, calls: Sequence[dict[str, str]]) -> Meter:
    written = [(http_call(client, _ERA, "read", call), "context_focus_question" in call) for call in calls]
    requests = itertools.cycle(written)

    def measure() -> float:
        request, is_asked = next(requests)
        started = time.perf_counter()
        answer = client.exchange(request).body
        took = time.perf_counter() - started
        read = orjson.loads(answer)["result"]["structuredContent"]
        if read["pruning"]["applied"] is not is_asked:
            raise RuntimeError(f"this is not what was asked for: {read['pruning']}")
        return took * 1000

    return measure


def _processor_ms(work: Callable[[], object]) -> Meter:
    def measure() -> float:
        started = time.process_time()
        work()
        return (time.process_time() - started) * 1000

    return measure


def _code(lines: int) -> str:
    """Real code, and always the same for one interpreter: modules of the standard library, one after the other."""
    modules = sorted(Path(os.__file__).parent.glob("[a-d]*.py"))
    return _first(lines, "".join(module.read_text() for module in modules))


def _docs(lines: int) -> str:
    """The documentation strings of those modules under headings, with their examples as code blocks."""
    code = _code(4 * lines)
    strings = re.findall(r'"""(.*?)"""', code, re.DOTALL)
    sections = (
        f"## Section {number}\n\n{string}\n\n```\n{string[:80]}\n```\n" for number, string in enumerate(strings)
    )
    return _first(lines, "\n".join(itertools.islice(itertools.cycle(sections), lines)))


def _log(lines: int) -> str:
    chance = random.Random(7)
    levels = ["INFO"] * 40 + ["DEBUG"] * 10 + ["ERROR"]
    return "\n".join(
        f"2026-01-01 12:{number // 60 % 60:02}:{number % 60:02} {chance.choice(levels)} worker-{chance.randrange(16)}"
        f" request {chance.getrandbits(64):x} took {chance.randrange(900)} ms in subparser {chance.randrange(99)}"
        for number in range(lines)
    )


def _first(lines: int, text: str) -> str:
    return "\n".join(text.split("\n")[:lines])
