"""What it costs to know what a command did: processor time of daemon and helper, and the memory of the helper."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from tests.benchmarks.rows import Bench, Goal, Meter, Row
from tools.effects.tracker import ChangeTracker
from tools.journal.journal import Journal

_SIZES = {"2k": 2_000, "20k": 20_000, "100k": 100_000}
# How many files a command changes, how many milliseconds that may cost, and how many commands make a round.
_COMMANDS = {"none": (0, 0.2, 200), "20": (20, 5.0, 10), "1000": (1_000, 120.0, 1)}
_A_FOLDER = 50
_PATIENCE_S = 120.0


def rows() -> list[Row]:
    found = [
        Row(
            f"effects-{changes}-{size}",
            f"a command that changes {changes} of {size} files: processor time to tell it",
            "a walk of the project",
            "ms",
            Goal(most_ms, of="ours"),
            partial(_cost, _SIZES[size], count, commands),
            7,
        )
        for size in _SIZES
        for changes, (count, most_ms, commands) in _COMMANDS.items()
    ]
    first, most_mb = Goal(50.0, of="ours"), Goal(60.0, of="ours")
    memory: Callable[[Bench], AbstractContextManager[tuple[Meter, Meter]]] = _memory
    return [
        *found,
        Row("effects-first-100k", "the first command waits", "a walk of the project", "ms", first, _first, 3),
        Row("effects-memory", "the helper with 100k files, resident", "nothing", "MB", most_mb, memory, 1),
    ]


class _Followed:
    """A project of so many files that a tracker follows, driven from here as the daemon does."""

    def __init__(self, bench: Bench, files: int) -> None:
        self.root = bench.folder / "project"
        self.files = [self.root / f"d{n // _A_FOLDER}" / f"f{n}.txt" for n in range(files)]
        for number, path in enumerate(self.files):
            if number % _A_FOLDER == 0:
                path.parent.mkdir(parents=True)
            path.write_bytes(b"x" * 2_000)
        self._loop = asyncio.new_event_loop()
        self.tracker = ChangeTracker(bench.folder / "effects", Journal(bench.folder / "journal"))

    def command(self, change: Callable[[], None] = lambda: None) -> float:
        """The processor time of all that is done before and after a command, in milliseconds."""
        spent = 0.0
        began = self._spent_s()
        watch = self._loop.run_until_complete(self.tracker.begin(self.root, "a command"))
        spent += self._spent_s() - began
        change()
        began = self._spent_s()
        self._loop.run_until_complete(self.tracker.end(watch))
        self._loop.run_until_complete(self.rest())
        return (spent + self._spent_s() - began) * 1000

    async def rest(self) -> None:
        """Wait until the helper has read what the command has changed."""
        project = self.tracker.follows(self.root)
        until = time.monotonic() + _PATIENCE_S
        while project is None or project.is_behind or not project.is_ready:
            assert time.monotonic() < until, "the helper has not read the project"
            await asyncio.sleep(0.005)

    def read(self) -> None:
        self._loop.run_until_complete(self.tracker.begin(self.root, "first"))
        self._loop.run_until_complete(self.rest())
        project = self.tracker.follows(self.root)
        assert project is not None
        project.running.clear()

    def first_ms(self) -> float:
        """How long a command waits for a helper that knows nothing yet."""
        self.tracker.end_helper("the benchmark begins anew")
        began = time.perf_counter()
        watch = self._loop.run_until_complete(self.tracker.begin(self.root, "first"))
        took = time.perf_counter() - began
        self.tracker.drop(watch)
        return took * 1000

    def close(self) -> None:
        async def close() -> None:
            self.tracker.close()

        self._loop.run_until_complete(close())
        self._loop.close()

    def _spent_s(self) -> float:
        pid = self.tracker.helper_pid
        helper_ns = 0 if pid is None else int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
        return time.process_time() + helper_ns / 1e9


@contextmanager
def _followed(bench: Bench, files: int) -> Iterator[_Followed]:
    followed = _Followed(bench, min(files, 2_000) if bench.is_quick else files)
    try:
        followed.read()
        yield followed
    finally:
        followed.close()


@contextmanager
def _cost(files: int, changed: int, commands: int, bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    with _followed(bench, files) as followed:
        letter = iter(range(10_000_000))

        def change() -> None:
            data = (b"%08d" % next(letter)) * 250
            step = max(1, len(followed.files) // max(changed, 1))
            for path in followed.files[::step][:changed]:
                path.write_bytes(data)

        def ours() -> float:
            return sum(followed.command(change) for _ in range(commands)) / commands

        yield ours, lambda: _walk_ms(followed.root)


@contextmanager
def _first(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    with _followed(bench, _SIZES["100k"]) as followed:
        yield followed.first_ms, lambda: _walk_ms(followed.root)


@contextmanager
def _memory(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    with _followed(bench, _SIZES["100k"]) as followed:

        def ours() -> float:
            status = Path(f"/proc/{followed.tracker.helper_pid}/status").read_text()
            found = re.search(r"VmRSS:\s+(\d+)", status)
            assert found is not None
            return int(found[1]) / 1024

        yield ours, lambda: 1.0


def _walk_ms(root: Path) -> float:
    began = time.process_time()
    for folder, _, files in os.walk(root):
        for name in files:
            os.lstat(f"{folder}/{name}")
    return (time.process_time() - began) * 1000
