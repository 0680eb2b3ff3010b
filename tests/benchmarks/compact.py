"""Results of five megabytes made short, against writing them as JSON once.

Processor time of this process: what is kept of a result is written to a real artifact store, in the row's folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import orjson

from mcp_agent.answers.fit import Answers
from mcp_agent.answers.reply import ToolReply
from mcp_agent.calls.call import Call, Caller
from mcp_agent.storage.artifact_store import ArtifactStore
from registry.catalog import discover
from registry.gate import Access
from tests.benchmarks.rows import Bench, Goal, Meter, Row
from tools.filesystem.fs_list import FolderListing, ListedEntry
from tools.filesystem.matches import FoundLine, FoundLines
from tools.kit.results import Result
from tools.shell.shell_exec import Executed

_BYTES = 5_000_000
_TIMES = 5
_MATCHES = _BYTES // 107


def rows() -> list[Row]:
    return [
        Row(
            f"compact-{name}",
            f"compact mode, {what} of 5 MB",
            "orjson.dumps",
            "ms",
            Goal(3.0),
            _contest(tool, make),
            15,
        )
        for name, what, tool, make in (
            ("list", "a list", "fs_list", _listing),
            ("matches", "matches", "fs_grep", _matches),
            ("output", "output", "shell_exec", _output),
        )
    ]


def _contest(tool: str, make: Callable[[], Result]) -> Callable[[Bench], AbstractContextManager[tuple[Meter, Meter]]]:
    @contextmanager
    def contest(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
        artifacts = ArtifactStore(bench.folder / "artifacts")
        catalog = discover()
        answers = Answers(artifacts, lambda _: catalog.tools)
        call = Call("bench", Caller("owner", Access(), "http"), tool, {"path": "/srv"})
        result, budget = make(), answers.budget(call, catalog.by_name.get(tool), "compact")
        assert abs(len(orjson.dumps(result.as_object())) - _BYTES) < _BYTES * 0.1

        def shorten() -> None:
            fitted = answers.fit(ToolReply(result), budget)
            assert callable(fitted), "it is too large to be written at once"
            fitted()

        shortened = _metered(shorten)

        def ours() -> float:
            took_ms = shortened()
            # So that no round pays for letting go of what an earlier one kept.
            for artifact in artifacts.newest():
                artifacts.remove(artifact)
            return took_ms

        yield ours, _metered(lambda: orjson.dumps(result.as_object()))
        artifacts.close()

    return contest


def _metered(work: Callable[[], object]) -> Meter:
    def meter() -> float:
        began = time.process_time()
        for _ in range(_TIMES):
            work()
        return (time.process_time() - began) * 1000 / _TIMES

    return meter


def _listing() -> FolderListing:
    entries: list[ListedEntry] = [
        {"path": f"/srv/shop/src/part-{n:06}.py", "type": "file", "size": n, "modified": "2026-11-16T04:18:01Z"}
        for n in range(_BYTES // 103)
    ]
    return FolderListing("/srv/shop", entries)


def _matches() -> FoundLines:
    paths = [f"/srv/shop/src/part-{n:03}.py" for n in range(400)]
    matches: list[FoundLine] = [
        {
            "path": paths[n * 400 // _MATCHES],
            "line": n,
            "text": "    return self.net() * (1 + TAX)",
            "column": 5,
        }
        for n in range(_MATCHES)
    ]
    return FoundLines(matches)


def _output() -> Executed:
    line = "tests/test_orders.py::test_total_of_an_order PASSED  [ 42%]\n"
    return Executed(exit_code=0, stdout=line * (_BYTES // (len(line) + 1)), stderr="", duration_s=3.2)
