"""`python -m tests.pruning_quality score|fit|mine`: see README.md, and the targets of the Makefile."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from tests.pruning_quality.fitting import fit
from tests.pruning_quality.git_history import mine
from tests.pruning_quality.scoring import report
from tests.pruning_quality.tasks import BadTask, read_tasks, write_tasks
from tools.pruning.engine.weights import WEIGHTS_FILE, load_weights


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.command == "mine":
            count = write_tasks(options.out, mine(options.repository, options.limit))
            print(f"{count} tasks are in {options.out}")
        elif options.command == "score":
            print(report(read_tasks(options.tasks), load_weights(options.weights)))
        else:
            tasks = read_tasks(options.tasks)
            today = date.today().isoformat()
            fit(tasks, options.out, date=today, fitted_on=options.on or _names(options.tasks), tell=print)
            print(f"the weights are in {options.out}")
    except (BadTask, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.pruning_quality", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    score = commands.add_parser("score", help="print the figures of the engine on tasks")
    score.add_argument("tasks", nargs="+", type=Path)
    score.add_argument("--weights", type=Path, default=WEIGHTS_FILE, help="another weights file")
    fitted = commands.add_parser("fit", help="fit the weights on tasks and write a weights file")
    fitted.add_argument("tasks", nargs="+", type=Path)
    fitted.add_argument("--out", type=Path, default=WEIGHTS_FILE)
    fitted.add_argument("--on", help="what the tasks are, for the weights file; the names of the files by default")
    mined = commands.add_parser("mine", help="make tasks from the history of a git repository")
    mined.add_argument("repository", type=Path)
    mined.add_argument("out", type=Path)
    mined.add_argument("--limit", type=int, default=500, help="so many tasks at most")
    return parser


def _names(paths: Sequence[Path]) -> str:
    return ", ".join(path.name for path in paths)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
