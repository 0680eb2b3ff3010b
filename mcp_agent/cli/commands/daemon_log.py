"""`mcp-agent logs` prints the log that every daemon keeps in its state folder, whether it runs or not."""

from __future__ import annotations

import logging
import sys
from argparse import Namespace

from mcp_agent.cli.commands.audit import print_lines, since, which_lines
from mcp_agent.cli.declaration import CommandReply, command
from mcp_agent.cli.tables import moment
from mcp_agent.config import load
from mcp_agent.process.printing import Style, paint, write_painted
from mcp_agent.storage.audit_reader import Line, LineFilter, Trail

_SHOWN = 100
_STYLES: dict[str, Style] = {"warn": "yellow", "error": "red", "debug": "dim"}


@command(
    "logs",
    *which_lines(_SHOWN),
    examples=("mcp-agent logs --since 1h", "mcp-agent logs --follow --last 10"),
    streams=True,
)
def logs(options: Namespace) -> CommandReply:
    """Print the log of the daemon, the newest lines last. With `--json` the lines are as they are stored."""
    file = load(vars(options)).log_file
    trail = Trail(file.parent, lambda: None, file.name)
    nothing = f"no line in {file}" if file.exists() else f"there is no log yet: {file}"
    print_lines(options, trail, LineFilter(since=since(options.since)), _SHOWN, _write_line, nothing)
    return CommandReply(None)


def _write_line(line: Line) -> None:
    facts = " ".join(f"{key}={value}" for key, value in (line.get("data") or {}).items())
    level = str(line.get("level", logging.getLevelName(logging.INFO)))
    text = f"{moment(line['ts'])}  {level:5}  {line.get('event')}  {facts}".rstrip()
    write_painted(f"{paint(text, _STYLES.get(level, 'plain'), sys.stdout)}\n", sys.stdout)
