"""Commands through the peers that run any: the same work over each one's own wire, side by side with ours."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from tests.benchmarks import peers
from tests.benchmarks.peers import Peer
from tests.benchmarks.rows import Bench, Goal, Meter, PeerMissing, Row
from tests.benchmarks.shell import EXEC_TRUE, LINE, MB, daemon, median_ms

_PATIENCE_S = 30.0
Started = Callable[[Path], AbstractContextManager[Peer]]
# How each is asked to run a command and to wait for its end.
_TERMINAL = ("run_command", {"wait": 60})
_COMMANDER = ("start_process", {"timeout_ms": 60_000})


def rows() -> list[Row]:
    ahead = Goal(1.0)
    both: list[tuple[str, str, Started, tuple[str, dict[str, int]]]] = [
        ("open-terminal", "open-terminal", peers.open_terminal, _TERMINAL),
        ("desktop-commander", "Desktop Commander", peers.desktop_commander, _COMMANDER),
    ]
    return [
        *(
            Row(f"peers-exec-true-{name}", "shell_exec true", told, "ms", ahead, partial(_true, started, how), 5)
            for name, told, started, how in both
        ),
        *(
            Row(f"peers-exec-100mb-{name}", "100 MB of output", told, "ms", ahead, partial(_large, started, how), 1)
            for name, told, started, how in both
        ),
    ]


@contextmanager
def _true(started: Started, how: tuple[str, dict[str, int]], bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    with ExitStack() as stack:
        host = daemon(stack, bench)
        peer = stack.enter_context(started(bench.folder))
        theirs = peer.written(how[0], command="true", **how[1])
        count = 5 if bench.is_quick else 30
        ours = host.written("shell_exec", EXEC_TRUE)
        yield median_ms(lambda: host.client.exchange(ours), count), median_ms(theirs, count)


@contextmanager
def _large(started: Started, how: tuple[str, dict[str, int]], bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    size = (1 if bench.is_quick else 100) * MB
    command = f"yes {LINE} | head -c {size}"
    with ExitStack() as stack:
        host = daemon(stack, bench)
        peer = stack.enter_context(started(bench.folder))
        yield (
            lambda: _taken_ms(lambda: host.call("shell_exec", command=command)),
            lambda: _taken_ms(lambda: _answered(peer.written(how[0], command=command, **how[1]))),
        )


def _taken_ms(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1000


def _answered(call: Callable[[], bytes]) -> None:
    """Raises PeerMissing if no answer comes in time: then the peer cannot do it."""
    answers: list[bytes] = []

    def ask() -> None:
        # It has ended by itself, or was ended because it took too long.
        with suppress(OSError, RuntimeError):
            answers.append(call())

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_PATIENCE_S)
    if not answers:
        raise PeerMissing(f"it gives no answer in {_PATIENCE_S:g} s")
