"""The search engine: which program it is, what it is asked, what it answers, and how it is run.

It is `rg` on the PATH, else the one that was installed with us, else `grep`.
"""

from __future__ import annotations

import functools
import os
import re
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal, Self

from tools.files import disk
from tools.files.text import LATIN_1, recognised
from tools.kit.errors import InvalidPattern, IoError, IsBinary, Timeout
from tools.kit.records import mutable, record
from tools.search.globs import Glob

TIME_LIMIT_S = 30.0
_POLL_MS = 100
_READ_BYTES = 1024 * 1024


@record
class Engine:
    """The program that searches."""

    kind: Literal["rg", "grep"]
    program: str
    origin: Literal["PATH", "installed with mcp-agent", "fallback"]

    @property
    def version(self) -> str:
        """The first line of what the program says of itself."""
        try:
            told = subprocess.run([self.program, "--version"], capture_output=True, timeout=5, check=False).stdout
        except (OSError, subprocess.TimeoutExpired):
            return "unknown"
        return told.decode("utf-8", "replace").partition("\n")[0]


@functools.cache
def find_engine() -> Engine:
    """Looked for once: what is on the PATH while we run does not change."""
    on_path = shutil.which("rg")
    if on_path is not None:
        return Engine("rg", on_path, "PATH")
    ours = Path(sys.executable).parent / ("rg.exe" if sys.platform == "win32" else "rg")
    if ours.is_file():
        return Engine("rg", str(ours), "installed with mcp-agent")
    return Engine("grep", shutil.which("grep") or "grep", "fallback")


@record
class Question:
    """What to look for, and where: in all files below `base`, or in `file`, which is open and what `base` was then.

    `admits` is asked for every file that matches.
    """

    base: Path
    pattern: str
    file: int | None = None
    glob: Glob | None = None
    excluded: str | None = None
    ignore_case: bool = False
    is_fixed: bool = False
    context: int = 0
    include_ignored: bool = False
    admits: Callable[[bytes], bool] | None = None


@mutable
class Hit:
    """A line that matches. `path` is relative to the base, empty where the base is the file; columns count from 1."""

    path: bytes
    line: int
    text: str
    column: int
    length: int
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


@record
class Hits:
    hits: list[Hit]
    is_cut: bool


class Program:
    """A search program at work, on an open file if one is `given`. Ended at the end of its `with` at the latest."""

    def __init__(self, arguments: Sequence[str | bytes], folder: Path | None, given: int = subprocess.DEVNULL) -> None:
        environment = {key: value for key, value in os.environ.items() if key != "RIPGREP_CONFIG_PATH"}
        try:
            self._process = subprocess.Popen(
                arguments,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env=environment,
            )
        except OSError as error:
            raise IoError(f"the search engine cannot be started: {(error.strerror or str(error)).lower()}") from error

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
            # Its end takes longer than its answer did; nobody needs to wait for it but the system.
            threading.Thread(target=process.wait, name="search-end", daemon=True).start()

    def output(self, check: Callable[[], None], deadline: float, tick_ms: int = _POLL_MS) -> Iterator[bytes]:
        """What the program prints, as it prints it, and nothing every `tick_ms` of silence.

        Raises InvalidPattern, Timeout.
        """
        process = self._process
        assert process.stdout is not None, "it is a pipe"
        assert process.stderr is not None, "it is a pipe"
        descriptor = process.stdout.fileno()
        disk.widen_pipe(descriptor)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
        while True:
            data = b""
            if poll.poll(tick_ms):
                data = os.read(descriptor, _READ_BYTES)
                if not data:
                    break
            yield data
            check()
            if time.monotonic() > deadline:
                raise Timeout(
                    f"the search took longer than {TIME_LIMIT_S:g} s",
                    hint="search in a smaller folder, or narrow it with a glob",
                )
        complaint = process.stderr.read(20_000).decode("utf-8", "replace").strip()
        if process.wait() == 2 and complaint:
            # Where ripgrep has tried both of its regex engines, the first one's words are about the usual syntax.
            _, *blocks = re.split(r"\n~{9,}\n", complaint)
            said = blocks[0] if blocks else complaint
            raise InvalidPattern(said.removeprefix("rg: ").removeprefix("grep: "))


def plain(data: bytes) -> str:
    """A line that may be in an encoding from before Unicode."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        if b"\0" in data:
            return data.decode("utf-8", "replace")
    try:
        return recognised(data, name="", size=len(data), cut=False).decode(data)
    except (IsBinary, UnicodeError):
        return LATIN_1.decode(data)
