"""`mcp-agent undo`: take back what tools did to files. Works with and without a running daemon."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from mcp_agent.app import journal_of
from mcp_agent.cli.commands.audit import parse_count
from mcp_agent.cli.declaration import CommandReply, argument, command
from mcp_agent.cli.tables import Cell, Row, moment, print_table
from mcp_agent.config import load
from mcp_agent.process.printing import Style, paint, progress, write_painted
from mcp_agent.storage.audit_log import note_command
from registry.user_error import UsageError, UserError
from tools.files import disk
from tools.files.diffs import diff_texts
from tools.files.paths import on_one_line, to_wire
from tools.journal.command_rows import CommandRow
from tools.journal.journal import Journal
from tools.journal.journal_records import JournalEntry
from tools.kit.errors import ToolError

_MOST_DIFF_BYTES = 1_000_000
_DIFF_CHARS = 4_000
_MOST_PATHS = 40
_DIFF_STYLES: dict[str, Style] = {"+": "green", "-": "red", "@": "cyan"}
_NOTHING = "there is nothing to undo"


@command(
    "undo",
    argument("id", nargs="?", metavar="ID", help="the undo_id of the change to take back"),
    argument("-n", "--last", type=parse_count, metavar="N", help="take back the last N changes, the newest first"),
    argument("--list", action="store_true", help="show what can be undone, and change nothing (the default)"),
    argument("--force", action="store_true", help="undo even if the file has changed since"),
    examples=("mcp-agent undo", "mcp-agent undo --last 1"),
)
def undo(options: Namespace) -> CommandReply:
    """List the changes that tools made to files, the newest first. With an id or a count, take them back and show it.

    A count walks back: each time the newest change that is neither undone nor an undo itself.
    """
    if options.id is not None and options.last is not None:
        raise UsageError("name one change by its id, or say how many with --last, not both")
    config = load(vars(options))
    journal = journal_of(config)
    if options.list or (options.id is None and options.last is None):
        return _list(journal.entries())
    undone = []
    for _ in range(options.last or 1):
        try:
            facts = _take_back(journal, options.id or _newest(journal), overwrite=options.force)
            note_command(config.audit_dir, "undo", **facts)
            undone.append(facts)
        except (ToolError, UserError, OSError) as error:
            print(f"mcp-agent: {error.render() if isinstance(error, ToolError) else error}", file=sys.stderr)
            return CommandReply(undone, 1)
    return CommandReply(undone)


def _newest(journal: Journal) -> str:
    entries = journal.entries()
    last = next((entry for entry in entries if entry.undoes is None), None)
    found = None if last is None else last.id
    if last is not None and any(entry.id == last.group for entry in entries):
        # All of what was changed together with it.
        found = last.group
    if found is None:
        redo = f"; to take back the last undo: mcp-agent undo {entries[0].id}" if entries else ""
        raise UserError(f"{_NOTHING}{redo}")
    return found


def _take_back(journal: Journal, undo_id: str, *, overwrite: bool) -> dict[str, Any]:
    diff = _diff(journal, undo_id)
    with progress("undoing"):
        entry, path, receipt = journal.undo(undo_id, overwrite=overwrite)
    for line in diff.splitlines():
        write_painted(f"{paint(line, _DIFF_STYLES.get(line[:1], 'plain'), sys.stdout)}\n", sys.stdout)
    for each in receipt.left:
        print(f"left as it is: {on_one_line(to_wire(f'{entry.path}/{each}'))}", file=sys.stderr)
    again = f"undo that with: mcp-agent undo {receipt.undo_id}" if receipt.undo_id else f"({receipt.not_undoable})"
    what = f"{entry.id} {on_one_line(entry.summary)} ({moment(entry.at)})"
    print(f"{on_one_line(to_wire(path))} is as it was before {what}; {again}")
    return {"undone": entry.id, "path": to_wire(path), "undo_id": receipt.undo_id}


def _list(entries: list[JournalEntry]) -> CommandReply:
    rows: list[Row] = [
        [
            Cell(entry.id, "cyan"),
            Cell(moment(entry.at), "dim"),
            on_one_line(entry.summary) + (f" (took back {entry.undoes})" if entry.undoes else ""),
        ]
        for entry in entries
    ]
    print_table(rows, _NOTHING)
    return CommandReply(
        [
            {"id": entry.id, "at": entry.at, "action": entry.action, "path": to_wire(entry.path)}
            | ({"source": to_wire(entry.source)} if entry.source else {})
            | ({"undoes": entry.undoes} if entry.undoes else {})
            | ({"command": entry.command} if entry.command is not None else {})
            for entry in entries
        ]
    )


def _paths(rows: list[CommandRow]) -> str:
    """What undoing a command does to each path, a line each."""
    lines = []
    for row in rows:
        if row.is_same and (row.after is None or row.after.is_folder):
            continue
        sign = "-" if row.before is None else "+" if row.after is None else "~"
        lines.append(f"{sign} {on_one_line(to_wire(row.path))}")
    more = len(lines) - _MOST_PATHS
    return "\n".join(lines[:_MOST_PATHS] + ([f"… and {more} more"] if more > 0 else []))


def _diff(journal: Journal, undo_id: str) -> str:
    """What undoing a change of a text file does to it, or the paths that undoing a command changes; else empty."""
    entry = journal.entry(undo_id.partition("/")[0])
    if entry.action == "command":
        return _paths(journal.rows_of(entry, undo_id.partition("/")[2]))
    if entry.action != "write":
        return ""
    try:
        now = disk.read_small_file(journal.place_of(f"undo://{undo_id}"), _MOST_DIFF_BYTES).decode()
        before = disk.read_small_file(journal.path_of(f"undo://{undo_id}"), _MOST_DIFF_BYTES).decode()
    except (OSError, UnicodeDecodeError, ToolError):
        return ""
    return diff_texts(now, before, limit_chars=_DIFF_CHARS)
