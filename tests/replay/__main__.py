"""`python -m tests.replay DATA`: see README.md, and `make replay`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.replay.records import Records
from tests.replay.replays import REPLAYS
from tests.replay.servers import Server, others, ours

# By the row and the one that it belongs to, and by server.
Figures = dict[tuple[str, str], dict[str, str]]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.replay", description=__doc__)
    parser.add_argument("data", type=Path, help="the folder of the records")
    parser.add_argument("--tree", type=Path, help="a checkout for the searches; without it they are left out")
    parser.add_argument("--only", nargs="+", choices=REPLAYS, default=list(REPLAYS))
    parser.add_argument("--most", type=int, help="so many records of each kind, spread over all")
    parser.add_argument("--alone", action="store_true", help="without the other servers")
    options = parser.parse_args(arguments)
    try:
        for line in table(Records(options.data, options.most), options.only, options.tree, is_alone=options.alone):
            print(line, flush=True)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def table(records: Records, kinds: Sequence[str], tree: Path | None, *, is_alone: bool) -> list[str]:
    """The lines of a table with a column for each server."""
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        tree = tree.resolve() if tree else None
        with ours(folder / "ours", tree or folder) as own:
            servers: list[Server] = [own]
            if is_alone:
                _ask(servers, records, kinds, tree, folder, figures)
            else:
                with others(folder) as theirs:
                    _ask(servers + theirs, records, kinds, tree, folder, figures)
                    servers += theirs
    names = [server.name for server in servers]
    lines = [f"| | {' | '.join(names)} |", "| --- " * (len(names) + 1) + "|"]
    for (_, row), each in figures.items():
        lines.append(f"| {row} | {' | '.join(each.get(name, '–') for name in names)} |")
    return lines


def _ask(
    servers: Sequence[Server],
    records: Records,
    kinds: Sequence[str],
    tree: Path | None,
    folder: Path,
    figures: Figures,
) -> None:
    for kind in kinds:
        for server in servers:
            work = folder / f"work-{server.name}"
            work.mkdir(exist_ok=True)
            place = tree if kind == "searches" else work
            heading = ""
            for row, figure in REPLAYS[kind](records, server, place) if place else ():
                # A row that begins with dots belongs to the one above it.
                heading = heading if row.startswith("…") else row
                figures.setdefault((heading, row), {})[server.name] = figure


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
