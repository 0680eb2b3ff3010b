"""What we print for people. Control characters are escaped, so what a client puts into a name, a command or a file
cannot control the terminal of whoever looks at it. Colours are added after that, on a terminal that wants them.

C0 but for tab and line end, DEL, C1, and the two line separators of Unicode are written as `\\u001b`. Inside JSON this
is the same text, so what we print as JSON stays JSON.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Literal, TextIO

from tools.files.paths import on_one_line

# With those that turn the direction of what follows them: a line would read as another than it is.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


Style = Literal["plain", "bold", "dim", "red", "green", "yellow", "cyan"]
_CODES: dict[Style, str] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_SHOWN_AFTER_S = 1.0


def escape_controls(text: str) -> str:
    """The text without control characters, but for tabs and line ends."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: object) -> str:
    """What somebody else has named or written, for a line of ours: it begins no line and hides nothing."""
    return escape_controls(on_one_line(str(text)))


class _PlainOutput(io.TextIOWrapper):
    def write(self, text: str, /) -> int:
        super().write(escape_controls(text))
        return len(text)


@contextlib.contextmanager
def plain_output() -> Iterator[None]:
    """Within the block, whatever is printed to standard output and standard error has no control characters."""
    with contextlib.ExitStack() as replaced:
        for name in ("stdout", "stderr"):
            replaced.enter_context(_replace(name))
        yield


@contextlib.contextmanager
def _replace(name: str) -> Iterator[None]:
    before = getattr(sys, name)
    if not isinstance(before, io.TextIOWrapper):
        # A closed stream is None.
        yield
        return
    before.flush()
    plain = _PlainOutput(
        before.buffer, before.encoding, "backslashreplace", line_buffering=before.line_buffering or name == "stderr"
    )
    setattr(sys, name, plain)
    try:
        yield
    finally:
        setattr(sys, name, before)
        with contextlib.suppress(BrokenPipeError):
            plain.flush()
        plain.detach()


def paint(text: str, style: Style, stream: TextIO) -> str:
    """The text with its controls escaped, in that style if `stream` shows colours. For `write_painted`."""
    plain = escape_controls(text)
    return f"\x1b[{_CODES[style]}m{plain}\x1b[0m" if style != "plain" and plain and has_colours(stream) else plain


def write_painted(text: str, stream: TextIO) -> None:
    """Write what was made with `paint`, and nothing else: its control characters reach the terminal."""
    if isinstance(stream, _PlainOutput):
        io.TextIOWrapper.write(stream, text)
    else:
        stream.write(text)


def has_colours(stream: TextIO) -> bool:
    """Whether to write colours: on a terminal, unless NO_COLOR or TERM=dumb asks for none."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_json(value: Any) -> None:
    import orjson

    print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


@contextlib.contextmanager
def progress(doing: str) -> Iterator[None]:
    """Within the block, say on a terminal what is being done and for how long, once that is longer than a second."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        yield
        return
    finished = threading.Event()
    shown = threading.Thread(target=_show_progress, args=(doing, finished, stream), daemon=True)
    shown.start()
    try:
        yield
    finally:
        finished.set()
        shown.join()


def _show_progress(doing: str, finished: threading.Event, stream: TextIO) -> None:
    began = time.monotonic()
    while not finished.wait(_SHOWN_AFTER_S):
        seconds = f"{time.monotonic() - began:.0f} s"
        write_painted(f"\r\x1b[K{paint(f'{doing} … {seconds}', 'dim', stream)}", stream)
        stream.flush()
    if time.monotonic() - began >= _SHOWN_AFTER_S:
        write_painted("\r\x1b[K", stream)
        stream.flush()


def write_content(text: str, stream: TextIO) -> None:
    """Write what a program printed or a file holds: as it is into a pipe or a file, and plainly on a terminal."""
    if stream.isatty():
        stream.write(text)
    else:
        stream.flush()
        stream.buffer.write(text.encode("utf-8", "surrogatepass"))
    stream.flush()
