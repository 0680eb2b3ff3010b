"""Tables for people: on a terminal aligned columns and colours, with the last column wrapped at words; in a pipe fields
that are separated by tabs, and each row on one line.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, TextIO

from mcp_agent.process.printing import Style, one_line, paint, write_painted

_GAP = "  "
_LEAST_WRAPPED = 24


class Cell(NamedTuple):
    """A field of a row. `to_right`: numbers, whose last digits belong below each other."""

    text: str
    style: Style = "plain"
    to_right: bool = False


Row = Sequence[Cell | str]


def print_table(rows: Sequence[Row], empty: str, stream: TextIO | None = None) -> None:
    """Print the rows, or the sentence `empty` if there are none; that goes to standard error in a pipe."""
    out = stream or sys.stdout
    if not rows:
        print(empty, file=out if out.isatty() else sys.stderr)
        return
    cells = [[_cell(field) for field in row] for row in rows]
    if out.isatty():
        _print_aligned(cells, out)
    else:
        for row in cells:
            out.write("\t".join(cell.text.replace("\t", " ") for cell in row).rstrip() + "\n")
    out.flush()


def age(seconds: float) -> str:
    """How long something takes or was ago, for people."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def moment(at: float | str) -> str:
    """When something was, on the clock of this machine: of seconds since 1970, or of a text in ISO form."""
    when = datetime.fromisoformat(at).astimezone() if isinstance(at, str) else datetime.fromtimestamp(at)
    return when.strftime("%Y-%m-%d %H:%M:%S")


def argument_type(schema: dict[str, Any]) -> str:
    """The type of an argument in words, with its bounds."""
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    kind = f"array of {argument_type(schema.get('items', {}))}" if schema.get("type") == "array" else schema.get("type")
    low, high = (_figure(schema[key]) if key in schema else "" for key in ("minimum", "maximum"))
    bounds = f", {low} to {high}" if low and high else f", from {low}" if low else f", to {high}" if high else ""
    return f"{kind or 'any'}{bounds}"


def argument_default(schema: dict[str, Any]) -> str:
    return str(schema["default"]).lower() if "default" in schema else "absent"


def _figure(bound: float) -> str:
    return f"{bound:g}" if bound < 10_000 else f"{bound:,}"


def _cell(field: Cell | str) -> Cell:
    cell = Cell(field) if isinstance(field, str) else field
    return cell._replace(text=one_line(cell.text))


def _print_aligned(rows: Sequence[Sequence[Cell]], out: TextIO) -> None:
    columns = max(map(len, rows))
    widths = [max((_width(row[index].text) for row in rows if index < len(row)), default=0) for index in range(columns)]
    last = columns - 1
    indent = sum(widths[:last]) + len(_GAP) * last
    room = shutil.get_terminal_size().columns - indent
    for row in rows:
        fields = [_align(cell, widths[index], out) for index, cell in enumerate(row[:last])]
        if len(row) <= last:
            write_painted(_GAP.join(fields).rstrip() + "\n", out)
            continue
        lines = [row[last].text]
        if room >= _LEAST_WRAPPED:
            lines = textwrap.wrap(row[last].text, room, break_long_words=False, break_on_hyphens=False) or [""]
        for number, line in enumerate(lines):
            begin = _GAP.join([*fields, ""]) if number == 0 else " " * indent
            write_painted((begin + paint(line, row[last].style, out)).rstrip() + "\n", out)


def _align(cell: Cell, width: int, out: TextIO) -> str:
    space = " " * (width - _width(cell.text))
    painted = paint(cell.text, cell.style, out)
    return space + painted if cell.to_right else painted + space


def _width(text: str) -> int:
    """How many places of a terminal the text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)
