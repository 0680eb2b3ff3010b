"""`mcp-agent logs` prints the log that every daemon keeps in its state folder, whether it runs or not."""

from __future__ import annotations

import logging
import sys
from argparse import Namespace
from collections.abc import Iterable
from datetime import datetime

import orjson

from mcp_agent.cli.commands.audit import FOLLOW, SINCE, parse_count, since
from mcp_agent.cli.declaration import CommandReply, argument, command
from mcp_agent.config import load
from mcp_agent.process.printing import Style, paint, write_painted
from mcp_agent.storage.audit_reader import Line, LineFilter, Trail

_SHOWN = 100
_STYLES: dict[str, Style] = {"warn": "yellow", "error": "red", "debug": "dim"}


@command(
    "logs",
    FOLLOW,
    SINCE,
    argument(
        "-n",
        "--last",
        type=parse_count,
        metavar="N",
        help=f"at most the last N lines; 0 is all (default: {_SHOWN}, or all since WHEN)",
    ),
    examples=("mcp-agent logs --since 1h", "mcp-agent logs --follow --last 10"),
    streams=True,
)
def logs(options: Namespace) -> CommandReply:
    """Print the log of the daemon, the newest lines last. With `--json` the lines are as they are stored."""
    file = load(vars(options)).log_file
    trail = Trail(file.parent, lambda: None, file.name)
    wanted = LineFilter(since=since(options.since))
    count = options.last if options.last is not None else (_SHOWN if options.since is None else 0)
    end = trail.end() if options.follow else None
    shown = trail.last(count or None, wanted)
    if not shown and not options.follow:
        print(f"no line in {file}" if file.exists() else f"there is no log yet: {file}", file=sys.stderr)
    _print(shown, as_json=options.json)
    if options.follow:
        # A line that was written while we read is in both.
        for line in trail.follow(end, wanted):
            if line not in shown:
                _print([line], as_json=options.json)
    return CommandReply(None)


def _print(lines: Iterable[Line], *, as_json: bool) -> None:
    for line in lines:
        if as_json:
            print(orjson.dumps(line).decode())
            continue
        at = datetime.fromisoformat(line["ts"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        facts = " ".join(f"{key}={value}" for key, value in (line.get("data") or {}).items())
        level = str(line.get("level", logging.getLevelName(logging.INFO)))
        text = paint(f"{at}  {level:5}  {line.get('event')}  {facts}".rstrip(), _STYLES.get(level, "plain"), sys.stdout)
        write_painted(f"{text}\n", sys.stdout)
    sys.stdout.flush()
