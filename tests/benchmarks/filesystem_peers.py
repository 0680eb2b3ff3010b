"""The filesystem tools against those of peers that do the same work, each over its own wire, ours over /mcp."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import orjson

from tests.benchmarks import peers
from tests.benchmarks.mcp_messages import Era, http_call, unopened_http
from tests.benchmarks.peers import Peer
from tests.benchmarks.processes import running, subject
from tests.benchmarks.rows import Bench, Goal, Meter, Row
from tests.benchmarks.trees import NEEDLE, PATCHED, tree, write_fifty_megabytes

_TOKEN = "benchmark-token-of-32-characters"
_ERA: Era = "2026-07-28"
_TEXT = "A line of a text file that is sixty-four bytes long, all told.\n\n" * 16
_SESSION = re.compile(r"session: (\S+)")
_STARTS: dict[str, Callable[[Path], AbstractContextManager[Peer]]] = {
    "Desktop Commander": peers.desktop_commander,
    "open-terminal": peers.open_terminal,
    "server-filesystem": lambda folder: peers.server_filesystem(folder, Path("/")),
}

# Calls a tool and gives its answer as text.
Call = Callable[..., str]
# One piece of work, whole. It gives the answer.
Work = Callable[[], str]
# Makes the work out of what calls a side's tools.
Plan = Callable[[Call, Bench], Work]


def rows() -> list[Row]:
    read, grep = "fs_read of 1 KB over /mcp, one client", "fs_grep, 100,000 files, 12 hits"
    search, listed = "fs_search *.py, first 200 of 100,000 files", "fs_list of 100,000 entries, all"
    few, edit = "fs_search *.py, all of 5,000 files", "fs_patch of one line in 50 MB"
    return [
        _row("read-dc", read, "Desktop Commander", _read("fs_read"), _read("read_file"), is_rate=True),
        _row("read-ot", read, "open-terminal", _read("fs_read"), _read("read_file"), is_rate=True),
        _row("grep-dc", grep, "Desktop Commander", _grep, _commander_greps),
        _row("grep-ot", grep, "open-terminal", _grep, _terminal_greps, rounds=3),
        _row("search-dc", search, "Desktop Commander", _find, _commander_finds),
        _row("search-ot", search, "open-terminal", _find, _terminal_finds),
        _row("search-sf", few, "server-filesystem", _find_few, _server_finds),
        _row("list-dc", listed, "Desktop Commander", _list, _commander_lists, rounds=3),
        _row("list-sf", listed, "server-filesystem", _list, _server_lists, rounds=3),
        _row("edit-dc", edit, "Desktop Commander", _edit("ours", _patch), _edit("theirs", _commander_edits), rounds=3),
        _row("edit-sf", edit, "server-filesystem", _edit("ours", _patch), _edit("theirs", _server_edits), rounds=3),
        _row("edit-ot", edit, "open-terminal", _edit("ours", _patch), _edit("theirs", _terminal_edits), rounds=3),
    ]


def _row(
    name: str, what: str, against: str, ours: Plan, theirs: Plan, *, rounds: int = 5, is_rate: bool = False
) -> Row:
    @contextmanager
    def contest(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
        meter = _rate if is_rate else _took
        with (
            _STARTS[against](bench.folder) as peer,
            running([*subject("echo_daemon"), _TOKEN], bench.folder) as daemon,
        ):
            own = _our_calls(daemon.line().decode().strip())
            yield meter(ours(own, bench), bench), meter(theirs(_their_calls(peer), bench), bench)

    goal = Goal(1.0, is_ceiling=not is_rate)
    return Row(f"peers-{name}", what, against, "calls/s" if is_rate else "ms", goal, contest, rounds)


def _our_calls(url: str) -> Call:
    client = unopened_http(url, _ERA, _TOKEN)

    def call(tool: str, **arguments: Any) -> str:
        nonlocal client
        request = http_call(client, _ERA, tool, arguments)
        try:
            body = client.exchange(request).body
        except (RuntimeError, OSError):
            # The daemon does not keep an idle connection for as long as a peer can take.
            client = unopened_http(url, _ERA, _TOKEN)
            body = client.exchange(request).body
        return body.decode()

    return call


def _their_calls(peer: Peer) -> Call:
    def call(tool: str, **arguments: Any) -> str:
        answer = peer.call(tool, **arguments)
        return answer if isinstance(answer, str) else orjson.dumps(answer).decode()

    return call


def _took(work: Work, bench: Bench) -> Meter:
    def measure() -> float:
        started = time.perf_counter()
        work()
        return (time.perf_counter() - started) * 1000

    return measure


def _rate(work: Work, bench: Bench) -> Meter:
    def measure() -> float:
        started, calls = time.perf_counter(), 0
        while (passed := time.perf_counter() - started) < bench.round_s:
            work()
            calls += 1
        return calls / passed

    return measure


def _expecting(wanted: str, work: Work) -> Work:
    """The same work, which fails where its answer is not the one."""

    def checked() -> str:
        answer = work()
        if wanted not in answer:
            raise RuntimeError(f"this is not the answer: {answer[:500]}")
        return answer

    return checked


def _tree(bench: Bench) -> str:
    return str(tree(5 if bench.is_quick else 100))


def _read(tool: str) -> Plan:
    def plan(call: Call, bench: Bench) -> Work:
        path = bench.folder / "kilobyte.txt"
        path.write_text(_TEXT)
        return _expecting("sixty-four bytes", lambda: call(tool, path=str(path)))

    return plan


def _grep(call: Call, bench: Bench) -> Work:
    return _expecting("needle11.py", lambda: call("fs_grep", base=_tree(bench), pattern=NEEDLE))


def _commander_greps(call: Call, bench: Bench) -> Work:
    question = {"path": _tree(bench), "pattern": NEEDLE, "searchType": "content", "contextLines": 0}
    return _expecting("needle11.py", lambda: _commander_search(call, question, 12))


def _terminal_greps(call: Call, bench: Bench) -> Work:
    return _expecting("needle11.py", lambda: call("grep_search", query=NEEDLE, path=_tree(bench)))


def _find(call: Call, bench: Bench) -> Work:
    return _expecting(".py", lambda: call("fs_search", base=_tree(bench), glob="*.py", max_results=200))


def _commander_finds(call: Call, bench: Bench) -> Work:
    question = {"path": _tree(bench), "pattern": "*.py", "searchType": "files", "maxResults": 200}
    return _expecting(".py", lambda: _commander_search(call, question, 200))


def _terminal_finds(call: Call, bench: Bench) -> Work:
    return _expecting(".py", lambda: call("glob_search", pattern="*.py", path=_tree(bench), max_results=200))


def _find_few(call: Call, bench: Bench) -> Work:
    question = {"base": str(tree(5)), "glob": "*.py", "max_results": 10_000}
    return _expecting("needle11.py", lambda: call("fs_search", **question))


def _server_finds(call: Call, bench: Bench) -> Work:
    return _expecting("needle11.py", lambda: call("search_files", path=str(tree(5)), pattern="**/*.py"))


def _list(call: Call, bench: Bench) -> Work:
    question = {"path": _tree(bench), "recursive": True, "max_depth": 9, "max_entries": 1_000_000}
    return _expecting("pkg000", lambda: call("fs_list", **question))


def _commander_lists(call: Call, bench: Bench) -> Work:
    return _expecting("file19", lambda: call("list_directory", path=_tree(bench), depth=9))


def _server_lists(call: Call, bench: Bench) -> Work:
    return _expecting("file19", lambda: call("directory_tree", path=_tree(bench)))


def _edit(name: str, change: Callable[[Call, str, str, str], str]) -> Plan:
    """One line there, and the next time back again, so that the file need not be made anew."""

    def plan(call: Call, bench: Bench) -> Work:
        path = bench.folder / f"fifty-megabytes-{name}"
        write_fifty_megabytes(path)
        ways = cycle([(PATCHED, PATCHED.upper()), (PATCHED.upper(), PATCHED)])
        return lambda: change(call, str(path), *next(ways))

    return plan


def _patch(call: Call, path: str, old: str, new: str) -> str:
    operations = [{"type": "replace_first", "pattern": old, "replacement": new}]
    answer = call("fs_patch", path=path, operations=operations)
    if "undo_id" not in answer:
        raise RuntimeError(f"not patched: {answer}")
    return answer


def _commander_edits(call: Call, path: str, old: str, new: str) -> str:
    return call("edit_block", file_path=path, old_string=old, new_string=new)


def _server_edits(call: Call, path: str, old: str, new: str) -> str:
    return call("edit_file", path=path, edits=[{"oldText": old, "newText": new}])


def _terminal_edits(call: Call, path: str, old: str, new: str) -> str:
    return call("replace_file_content", path=path, replacements=[{"target": old, "replacement": new}])


def _commander_search(call: Call, question: dict[str, Any], count: int) -> str:
    """Its search goes on in the background, and is asked for until there is enough of it."""
    answer = call("start_search", **question)
    session = _SESSION.search(answer)
    if session is None:
        raise RuntimeError(f"no search was started: {answer}")
    while True:
        answer = call("get_more_search_results", sessionId=session[1], offset=0, length=count)
        if f"Showing results 0-{count - 1}\n" in answer or "IN PROGRESS" not in answer:
            return answer
