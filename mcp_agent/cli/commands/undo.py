"""`mcp-agent undo [ID|--list]`: take back what a tool did to a file. Works with and without a running daemon.

Without an id it walks back: each time the newest change that is neither undone nor an undo itself.
"""

from __future__ import annotations

import argparse
import sys
from datetime import datetime

from mcp_agent.app import journal_of
from mcp_agent.cli.tables import Cell, Row, print_table
from mcp_agent.config import load
from mcp_agent.process.printing import Style, paint, print_json, progress, write_painted
from tools.files import disk
from tools.files.diffs import diff_texts
from tools.files.paths import on_one_line, to_wire
from tools.journal.journal import Journal
from tools.journal.journal_records import JournalEntry
from tools.kit.errors import ToolError

_MOST_DIFF_BYTES = 1_000_000
_DIFF_CHARS = 4_000
_DIFF_STYLES: dict[str, Style] = {"+": "green", "-": "red", "@": "cyan"}
_NOTHING = "there is nothing to undo"


def undo(options: argparse.Namespace) -> int:
    journal = journal_of(load(vars(options)))
    entries = journal.entries()
    if options.list:
        return _list(entries, as_json=options.json)
    undo_id = options.id or next((entry.id for entry in entries if entry.undoes is None), None)
    if undo_id is None:
        redo = f"; to take back the last undo: mcp-agent undo {entries[0].id}" if entries else ""
        print(f"mcp-agent: {_NOTHING}{redo}", file=sys.stderr)
        return 1
    try:
        diff = _diff(journal, undo_id)
        with progress("undoing"):
            entry, path, receipt = journal.undo(undo_id, overwrite=options.force)
    except ToolError as error:
        print(f"mcp-agent: {error.render()}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"mcp-agent: {error}", file=sys.stderr)
        return 1
    for line in diff.splitlines():
        write_painted(f"{paint(line, _DIFF_STYLES.get(line[:1], 'plain'), sys.stdout)}\n", sys.stdout)
    again = f"undo that with: mcp-agent undo {receipt.undo_id}" if receipt.undo_id else f"({receipt.not_undoable})"
    what = f"{entry.id} {on_one_line(entry.summary)} ({_time(entry)})"
    print(f"{on_one_line(to_wire(path))} is as it was before {what}; {again}")
    return 0


def _list(entries: list[JournalEntry], *, as_json: bool) -> int:
    if as_json:
        print_json(
            [
                {"id": entry.id, "at": entry.at, "action": entry.action, "path": to_wire(entry.path)}
                | ({"source": to_wire(entry.source)} if entry.source else {})
                | ({"undoes": entry.undoes} if entry.undoes else {})
                for entry in entries
            ]
        )
        return 0
    rows: list[Row] = [
        [
            Cell(entry.id, "cyan"),
            Cell(_time(entry), "dim"),
            on_one_line(entry.summary) + (f" (took back {entry.undoes})" if entry.undoes else ""),
        ]
        for entry in entries
    ]
    print_table(rows, _NOTHING)
    return 0


def _diff(journal: Journal, undo_id: str) -> str:
    """What undoing a change of a text file does to it; empty for other changes."""
    entry = journal.entry(undo_id)
    if entry.action != "write":
        return ""
    try:
        now = disk.read_small_file(journal.place_of(f"undo://{undo_id}"), _MOST_DIFF_BYTES).decode()
        before = disk.read_small_file(journal.path_of(f"undo://{undo_id}"), _MOST_DIFF_BYTES).decode()
    except (OSError, UnicodeDecodeError, ToolError):
        return ""
    return diff_texts(now, before, limit_chars=_DIFF_CHARS)


def _time(entry: JournalEntry) -> str:
    return datetime.fromtimestamp(entry.at).strftime("%Y-%m-%d %H:%M:%S")
