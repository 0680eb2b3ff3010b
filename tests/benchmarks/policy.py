"""What it costs that the owner is asked and told: rules looked at, a line on record, figures counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from tests.benchmarks.daemon import processor_time
from tests.benchmarks.processes import subject
from tests.benchmarks.rows import Bench, Goal, Meter, Row

# Short enough for any budget, so that both sides answer the same.
_TEXT = "A line of a text file that is sixty-four bytes long, all told.\n\n" * 6
_FILES = 20


def rows() -> list[Row]:
    what = "processor time of fs_read over /mcp, with audit, metrics, deny rules and"
    against, goal = "the same without", Goal(1.2)
    return [
        Row("call-policy", f"{what} budget", against, "µs", goal, _against_off("on"), rounds=31),
        Row("call-policy-compact", f"{what} compact", against, "µs", goal, _against_off("compact"), rounds=31),
    ]


def _against_off(switch: str) -> Callable[[Bench], AbstractContextManager[tuple[Meter, Meter]]]:
    @contextmanager
    def contest(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
        # Several, as in a day's work: what is known of one path is of no use for the next.
        files = [bench.folder / f"{number}.txt" for number in range(_FILES)]
        for file in files:
            file.write_text(_TEXT)
        arguments = [{"path": str(file)} for file in files]
        with ExitStack() as stack:
            ours, theirs = (
                processor_time(stack, bench, "fs_read", arguments, [*subject("policed_daemon"), each])
                for each in (switch, "off")
            )
            yield ours, theirs

    return contest
