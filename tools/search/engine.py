"""The search engine: which program searches, what it is asked, what it answers, and how it is run.

It is `rg` on the PATH, else the one that was installed with us, else `grep`.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

from msgspec import Struct, field

from tools.files import disk
from tools.files.exact import path_through
from tools.files.text import LATIN_1, detect_encoding
from tools.kit.errors import IsBinary, TooLarge
from tools.search.globs import Glob

TIME_LIMIT_S = 30.0
# How long to look for matches in what is ignored. What takes longer is taken to have some.
LOOK_S = 1.0
_POLL_MS = 100
_READ_BYTES = 1024 * 1024
_MOST_LINE_BYTES = 64 * 1024 * 1024
_MOST_COMPLAINT_BYTES = 20_000
# Ripgrep compiles the ignore files of a project: four megabytes of odd lines would take gigabytes.
MOST_MEMORY_MIB = 512
_MOST_MEMORY_BYTES = MOST_MEMORY_MIB * 1024 * 1024


class Engine(Struct, frozen=True):
    """The program that searches."""

    kind: Literal["rg", "grep"]
    program: str
    origin: Literal["PATH", "installed with mcp-agent", "fallback"]


def find_engine() -> Engine:
    on_path = shutil.which("rg")
    if on_path is not None:
        return Engine("rg", on_path, "PATH")
    ours = Path(sys.executable).parent / "rg"
    if ours.is_file():
        return Engine("rg", str(ours), "installed with mcp-agent")
    return Engine("grep", shutil.which("grep") or "grep", "fallback")


class SearchQuery(Struct, frozen=True):
    """What to look for, and where: in all files below `folder`, or in `file`. Both are open for reading.

    `base` is the path of the folder, with no symbolic link in it.

    `admits` decides which files count. With `uses_defaults` the program searches as it does for a person at a
    terminal: it leaves out hidden files, reads no encoding but UTF-8, and any complaint of it is an EngineError.
    """

    pattern: str
    base: Path = Path("/")
    folder: int | None = None
    file: int | None = None
    glob: Glob | None = None
    excluded: str | None = None
    ignore_case: bool = False
    is_fixed: bool = False
    # The file names of a language, beside the glob.
    kind: Glob | None = None
    # How many lines to give before and after a match.
    before: int = 0
    after: int = 0
    # Whether a match may have several lines, and a dot matches a line end.
    is_multiline: bool = False
    # Whether the first match of a file is enough.
    is_by_file: bool = False
    include_ignored: bool = False
    # Whether it is the contents of .git that count, too, where nothing is ignored.
    include_git: bool = True
    uses_defaults: bool = False
    admits: Callable[[bytes], bool] | None = None

    @property
    def has_context(self) -> bool:
        return bool(self.before or self.after)

    @property
    def working_directory(self) -> Path | None:
        """Where the program is started: in the folder that was opened, also if its name means another by now."""
        return None if self.folder is None else path_through(self.folder, self.base)

    def decode(self, line: bytes) -> str:
        return line.decode("utf-8", "replace") if self.uses_defaults else decode_line(line)


class Bounds(Struct, frozen=True):
    """When to stop: after so many matches, after so many bytes of matching lines, and at what time."""

    hits: int
    deadline: float
    check: Callable[[], None]
    line_bytes: int | None = None


class Hit(Struct, eq=False):
    """A line that matches. `path` is relative to the base, empty where the base is the file.

    Lines and columns count from 1. `grep` gives no column where it uses its defaults, nor for an empty match.
    """

    path: bytes
    line: int
    text: str
    column: int | None
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    # The bytes of the line and where they begin in the file, if `grep` searched.
    start: int = 0
    data: bytes = b""


class Hits(Struct, frozen=True):
    hits: list[Hit]
    is_cut: bool


class EngineError(Exception):
    """The program could not be started, needed too much time or memory, or complained; each tool says so in its way."""

    def __init__(
        self, kind: Literal["spawn", "timeout", "memory", "exit"], message: str = "", exit_code: int = 0
    ) -> None:
        super().__init__(message)
        self.kind, self.message, self.exit_code = kind, message, exit_code


class Program:
    """A running search program. `stdin` is the open file that it reads. It is ended when its `with` block ends."""

    def __init__(
        self, arguments: Sequence[str | bytes], folder: Path | None, stdin: int | None, *, fails_always: bool = False
    ) -> None:
        """`fails_always`: an exit code over 1 is an error even if nothing was printed about it."""
        self._fails_always = fails_always
        environment = {key: value for key, value in os.environ.items() if key != "RIPGREP_CONFIG_PATH"}
        try:
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env=environment,
            )
        except OSError as error:
            raise EngineError("spawn", (error.strerror or str(error)).lower()) from error
        # It may have ended, and a container may forbid it.
        with contextlib.suppress(OSError):
            resource.prlimit(self._process.pid, resource.RLIMIT_DATA, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        process = self._process
        assert process.stdout is not None, "it is a pipe"
        assert process.stderr is not None, "it is a pipe"
        process.stdout.close()
        process.stderr.close()
        if process.poll() is None:
            process.kill()
            # Its end takes longer than its answer did, and no caller has to wait for it.
            threading.Thread(target=process.wait, name="search-end", daemon=True).start()

    def output(self, bounds: Bounds) -> Iterator[bytes]:
        """What the program prints, piece by piece. Raises EngineError."""
        process = self._process
        assert process.stdout is not None, "it is a pipe"
        assert process.stderr is not None, "it is a pipe"
        out, error = process.stdout.fileno(), process.stderr.fileno()
        disk.widen_pipe(out)
        poll = select.poll()
        poll.register(out, select.POLLIN | select.POLLHUP)
        poll.register(error, select.POLLIN | select.POLLHUP)
        open_pipes, complaint = 2, b""
        while open_pipes:
            left_ms = (bounds.deadline - time.monotonic()) * 1000
            if left_ms <= 0:
                raise EngineError("timeout")
            bounds.check()
            for pipe, _ in poll.poll(min(left_ms, _POLL_MS)):
                data = os.read(pipe, _READ_BYTES)
                if not data:
                    poll.unregister(pipe)
                    open_pipes -= 1
                elif pipe == out:
                    yield data
                else:
                    complaint = (complaint + data)[:_MOST_COMPLAINT_BYTES]
        exit_code = process.wait()
        message = complaint.decode("utf-8", "replace").strip()
        if exit_code == -signal.SIGABRT:
            raise EngineError("memory", message, exit_code)
        if exit_code not in (0, 1) and (message or self._fails_always):
            raise EngineError("exit", message or f"it ended with exit code {exit_code}", exit_code)


def share_context(hits: Sequence[Hit], lines: Mapping[int, str], before: int, after: int) -> None:
    """Give the matches of one file the lines around them, up to `before` and `after`, each line once."""
    shown = 0
    for hit, following in zip(hits, [*hits[1:], None], strict=False):
        last = hit.line + hit.text.count("\n")
        end = last + after if following is None else min(last + after, following.line - 1)
        hit.before = [lines[n] for n in range(max(hit.line - before, shown + 1), hit.line) if n in lines]
        hit.after = [lines[n] for n in range(last + 1, end + 1) if n in lines]
        shown = max(end, last)


def split_lines(pieces: Iterable[bytes], *, skips_long: bool) -> Iterator[bytes]:
    """Whole lines without their ends.

    A line that is too long to keep is skipped but for its end. Raises TooLarge instead, unless `skips_long`.
    """
    rest = b""
    for piece in pieces:
        *lines, tail = piece.split(b"\n")
        if lines:
            lines[0] = rest + lines[0]
            rest = tail
            yield from lines
        else:
            rest += tail
        if len(rest) > _MOST_LINE_BYTES:
            if not skips_long:
                raise TooLarge(
                    f"a line that matches is longer than {_MOST_LINE_BYTES} bytes", hint="leave that file out by a glob"
                )
            rest = b""
    if rest:
        yield rest


def decode_line(data: bytes) -> str:
    """A line that may be in an encoding from before Unicode."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        if b"\0" in data:
            return data.decode("utf-8", "replace")
    try:
        return detect_encoding(data, name="", size=len(data), cut=False).decode(data)
    except (IsBinary, UnicodeError):
        return LATIN_1.decode(data)
