"""Measure, and print one table: `python -m tests.benchmarks [--quick] [ROW ...]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks import (
    additions,
    compact,
    daemon,
    effects,
    filesystem,
    fleet,
    open_terminal,
    policy,
    pruning,
    shell,
    wires,
)
from tests.benchmarks.rows import Bench, PeerMissing, Row, measured
from tests.benchmarks.table import Finding, machine, rendered

_FAMILIES = (
    daemon,
    wires,
    filesystem,
    shell,
    pruning,
    compact,
    policy,
    effects,
    additions,
    open_terminal,
    fleet,
)
_FAILED = "FAILED"


def main(arguments: Sequence[str]) -> int:
    """Run the rows that are asked for; 1 if one could not be run. A goal that is missed is no failure."""
    every = [row for family in _FAMILIES for row in family.rows()]
    options = _parser(every).parse_args(arguments)
    wanted = [row for row in every if not options.row or any(part in row.name for part in options.row)]
    if not wanted:
        print(f"no row is called like that; there are {', '.join(row.name for row in every)}", file=sys.stderr)
        return 2
    findings = [_found(row, is_quick=options.quick) for row in wanted]
    print(f"machine  {machine()}")
    print(f"command  {' '.join(['python -m tests.benchmarks', *arguments])}")
    print()
    print(rendered(findings))
    return 1 if any(finding.note == _FAILED for finding in findings) else 0


def _found(row: Row, *, is_quick: bool) -> Finding:
    print(f"{row.name} …", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="mcp-agent-bench-") as folder:
        try:
            return Finding(row, measured(row, Bench(Path(folder), is_quick)))
        except PeerMissing as error:
            return Finding(row, None, f"skipped: {error}")
        except Exception:
            # A boundary: the other rows are still worth having.
            traceback.print_exc()
            print((Path(folder) / "stderr").read_text(errors="replace")[-4_000:], file=sys.stderr)
            return Finding(row, None, _FAILED)


def _parser(rows: Sequence[Row]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Measure the daemon.")
    names = ", ".join(row.name for row in rows)
    parser.add_argument("row", nargs="*", help=f"only the rows with this in their name; there are {names}")
    parser.add_argument("--quick", action="store_true", help="one short round a row, to see that all of them run")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
