"""What it costs that the owner is asked and told: rules looked at, a line on record, figures counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.benchmarks.daemon import processor_time
from tests.benchmarks.processes import subject
from tests.benchmarks.rows import Bench, Goal, Meter, Row

_TEXT = "A line of a text file that is sixty-four bytes long, all told.\n\n" * 16
_FILES = 20


def rows() -> list[Row]:
    return [
        Row(
            "call-policy",
            "processor time of fs_read of 1 KB over /mcp, with audit, metrics, deny rules and budget",
            "the same without",
            "µs",
            Goal(1.2),
            _on_against_off,
            rounds=31,
        )
    ]


@contextmanager
def _on_against_off(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    # Several, as in a day's work: what is known of one path is of no use for the next.
    files = [bench.folder / f"{number}.txt" for number in range(_FILES)]
    for file in files:
        file.write_text(_TEXT)
    arguments = [{"path": str(file)} for file in files]
    with ExitStack() as stack:
        on, off = (
            processor_time(stack, bench, "fs_read", arguments, [*subject("policed_daemon"), switch])
            for switch in ("on", "off")
        )
        yield on, off
