"""`mcp-agent undo [ID|--list]`: take back what a tool did to a file. Works with and without a running daemon."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime

from mcp_agent.app import journal_of
from mcp_agent.config import load
from tools.files.paths import on_one_line, to_wire
from tools.kit.errors import ToolError


def undo(options: argparse.Namespace) -> int:
    journal = journal_of(load(vars(options)))
    entries = journal.entries()
    if options.list:
        for entry in entries:
            at = datetime.fromtimestamp(entry.at).strftime("%Y-%m-%d %H:%M:%S")
            print(f"{entry.id}  {at}  {on_one_line(entry.summary)}")
        return 0
    if not entries and options.id is None:
        print("mcp-agent: there is nothing to undo", file=sys.stderr)
        return 1
    try:
        entry, path, receipt = journal.undo(options.id or entries[0].id, overwrite=options.force)
    except ToolError as error:
        print(f"mcp-agent: {error.render()}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"mcp-agent: {error}", file=sys.stderr)
        return 1
    again = f"undo that with: mcp-agent undo {receipt.undo_id}" if receipt.undo_id else f"({receipt.not_undoable})"
    print(f"{on_one_line(to_wire(path))} is as it was before {entry.id} {on_one_line(entry.summary)}; {again}")
    return 0
