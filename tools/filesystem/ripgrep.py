"""The one search engine: `rg` on the PATH, else the one that was installed with us, else `grep`.

It searches in parallel, so the order of what it finds differs from run to run. A complete answer is sorted
afterwards; one that is cut is asked for again in the engine's own order, which is slower and stops at the cut.
"""

from __future__ import annotations

import base64
import functools
import os
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import orjson

from tools import disk
from tools.errors import InvalidPattern, IoError, IsBinary, Timeout, TooLarge
from tools.filesystem.globs import Glob, read_glob
from tools.filesystem.walk import walked
from tools.text import LATIN_1, recognised

TIME_LIMIT_S = 30.0
_POLL_MS = 100
_AHEAD_S = 0.015
_READ_BYTES = 1024 * 1024
_MOST_LINE_BYTES = 64 * 1024 * 1024
_GREP_FILES = 400
_TYPE = "mcpagent"
_MATCH_MARK = b'{"type":"match"'


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Question:
    """What to look for, and where. `base` is a folder or a file; `admits` is asked for every file that matches."""

    base: Path
    pattern: str
    glob: Glob | None = None
    excluded: str | None = None
    ignore_case: bool = False
    is_fixed: bool = False
    context: int = 0
    include_ignored: bool = False
    admits: Callable[[bytes], bool] | None = None


@dataclass(slots=True)
class Hit:
    """A line that matches. `path` is relative to the base, empty where the base is the file; columns count from 1."""

    path: bytes
    line: int
    text: str
    column: int
    length: int
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Hits:
    hits: list[Hit]
    is_cut: bool


def search(engine: Engine, question: Question, limit: int, check: Callable[[], None]) -> Hits:
    """The first `limit` lines that match, in the order of paths. Raises InvalidPattern, Timeout."""
    deadline = time.monotonic() + TIME_LIMIT_S
    if engine.kind == "grep":
        return _by_grep(engine, question, limit, check, deadline)
    if not question.base.is_dir():
        with _Program(_arguments(engine, question, in_order=False), None) as program:
            return _read(program.output(check, deadline), _JsonReader(question, limit, is_folder=False))
    in_order = _arguments(engine, question, in_order=True)
    with _Program(in_order, question.base) as ahead:
        # Where much is found at once, the answer in order is on its way already. It takes what the other leaves.
        ahead.step_back()
        program = _Program(_arguments(engine, question, in_order=False), question.base)
        give_up = time.monotonic() + _AHEAD_S

        def check_ahead() -> None:
            check()
            if time.monotonic() > give_up:
                ahead.end()

        with program:
            found = _all_or_cut(program.output(check_ahead, deadline), question, limit)
        if not found.is_cut:
            found.hits.sort(key=lambda hit: (path_order(hit.path), hit.line))
            return found
        if not ahead.is_ended:
            ahead.hurry()
            return _read(ahead.output(check, deadline), _JsonReader(question, limit, is_folder=True))
    with _Program(in_order, question.base) as program:
        return _read(program.output(check, deadline), _JsonReader(question, limit, is_folder=True))


def path_order(path: bytes) -> bytes:
    """A key that sorts paths part by part, as the engine does: a slash comes before every letter."""
    return path.replace(b"/", b"\0")


def _walk_options(include_ignored: bool, names: Sequence[str] | None, in_order: bool) -> list[str]:
    options = ["--hidden"]
    options += ["--no-ignore"] if include_ignored else ["--no-require-git", "--no-ignore-global", "--glob", "!.git"]
    # A type and not a glob: a glob that includes would also bring back what .gitignore leaves out.
    for name in names or ():
        options += ["--type-add", f"{_TYPE}:{name}"]
    if names:
        options += ["--type", _TYPE]
    return options + (["--sort", "path"] if in_order else [])


def _arguments(engine: Engine, question: Question, *, in_order: bool) -> list[str]:
    arguments = [engine.program, "--no-config", "--no-messages", "--json", "--engine", "auto"]
    is_folder = question.base.is_dir()
    if is_folder:
        names = question.glob.names if question.glob is not None and "*" not in question.glob.names else None
        arguments += _walk_options(question.include_ignored, names, in_order)
        if question.excluded is not None:
            arguments += ["--glob", f"!{question.excluded}"]
    if question.ignore_case:
        arguments.append("--ignore-case")
    if question.is_fixed:
        arguments.append("--fixed-strings")
    if "\n" in question.pattern or (r"\n" in question.pattern and not question.is_fixed):
        arguments.append("--multiline")
    if question.context:
        arguments += ["--context", str(question.context)]
    return [*arguments, "-e", question.pattern, "--", "./" if is_folder else os.fspath(question.base)]


def _all_or_cut(pieces: Iterable[bytes], question: Question, limit: int) -> Hits:
    """Every match, in no order; or that there are more than `limit`, and then none."""
    reader = _JsonReader(question, limit, is_folder=True)
    if reader.is_choosy:
        return _read(pieces, reader)
    # An answer that will be asked for again is not worth reading: so it is only counted at first.
    kept: list[bytes] = []
    count = 0
    for piece in pieces:
        kept.append(piece)
        count += piece.count(_MATCH_MARK)
        if count > limit:
            return Hits([], is_cut=True)
    return _read(kept, reader)


def _read(pieces: Iterable[bytes], reader: _JsonReader) -> Hits:
    for line in _lines(pieces):
        if reader.take(line):
            break
    return reader.finished()


class _JsonReader:
    """Collects matches out of `rg --json`, and the lines around them."""

    def __init__(self, question: Question, limit: int, is_folder: bool) -> None:
        self._question, self._limit, self._is_folder = question, limit, is_folder
        self._hits: list[Hit] = []
        self._around: dict[int, str] = {}
        self._file: list[Hit] = []
        self._is_cut = False

    @property
    def is_choosy(self) -> bool:
        """Whether there may be matches that do not count."""
        glob = self._question.glob
        return self._question.admits is not None or (glob is not None and glob.has_folders)

    def take(self, line: bytes) -> bool:
        """Whether there is enough."""
        if line.startswith(_MATCH_MARK):
            return self._match(orjson.loads(line)["data"])
        if line.startswith(b'{"type":"context"'):
            data = orjson.loads(line)["data"]
            self._around[data["line_number"]] = _text(data["lines"]).rstrip("\r\n")
        elif line.startswith(b'{"type":"end"'):
            self._end_file()
        return False

    def finished(self) -> Hits:
        self._end_file()
        return Hits(self._hits, self._is_cut)

    def _match(self, data: dict[str, Any]) -> bool:
        path = _bytes(data["path"])[2:] if self._is_folder else b""
        question = self._question
        if (
            self._is_folder
            and question.glob is not None
            and question.glob.has_folders
            and not question.glob.matches(os.fsdecode(path))
        ):
            return False
        if question.admits is not None and not question.admits(path):
            return False
        if len(self._hits) >= self._limit:
            self._is_cut = True
            # What follows the last match is still wanted around it.
            return True
        lines = data["lines"]
        text = _text(lines)
        submatch = data["submatches"][0] if data["submatches"] else {"start": 0, "end": 0}
        if "text" in lines and text.isascii():
            column, length = submatch["start"] + 1, submatch["end"] - submatch["start"]
        else:
            raw = _bytes(lines)
            column = len(raw[: submatch["start"]].decode("utf-8", "replace")) + 1
            length = len(raw[submatch["start"] : submatch["end"]].decode("utf-8", "replace"))
        hit = Hit(path, data["line_number"] or 1, text.rstrip("\r\n"), column, length)
        self._hits.append(hit)
        if question.context:
            self._file.append(hit)
            self._around[hit.line] = hit.text
        return False

    def _end_file(self) -> None:
        span = self._question.context
        for hit in self._file:
            last = hit.line + hit.text.count("\n")
            hit.before = [self._around[n] for n in range(hit.line - span, hit.line) if n in self._around]
            hit.after = [self._around[n] for n in range(last + 1, last + span + 1) if n in self._around]
        self._file, self._around = [], {}


def _by_grep(engine: Engine, question: Question, limit: int, check: Callable[[], None], deadline: float) -> Hits:
    """The same answer from `grep`, fed with the files of our own walk, which is in order already."""
    is_folder = question.base.is_dir()
    arguments = [engine.program, "-n", "-H", "-Z", "-I", "-s"]
    arguments.append("-F" if question.is_fixed else _grep_dialect(engine.program))
    if question.ignore_case:
        arguments.append("-i")
    arguments += ["-m", str(limit + 1), "-e", question.pattern, "--"]
    hits: list[Hit] = []
    for batch in _batches(_grep_files(question, check)) if is_folder else [[os.fsencode(question.base)]]:
        started = b""
        with _Program([*arguments, *batch], question.base if is_folder else None) as program:
            lines = list(_lines(program.output(check, deadline)))
        for line in lines:
            path, is_whole, rest = (started + line).partition(b"\0")
            # A name may have a line end in it; what ends the name is NUL.
            started = b"" if is_whole else started + line + b"\n"
            number, _, text = rest.partition(b":")
            if not number.isdigit():
                continue
            if len(hits) == limit:
                return Hits(hits, is_cut=True)
            hits.append(Hit(path if is_folder else b"", int(number), _plain(text).rstrip("\r\n"), 1, 0))
        check()
    return Hits(hits, is_cut=False)


def _grep_files(question: Question, check: Callable[[], None]) -> Iterator[bytes]:
    excluded = read_glob(question.excluded) if question.excluded is not None else None
    for run in walked(question.base, include_ignored=question.include_ignored, check=check):
        for path in () if run.is_folder else (run.prefix + name for name in run.names):
            if question.glob is not None and not question.glob.matches(path):
                continue
            if excluded is not None and excluded.matches(path):
                continue
            encoded = os.fsencode(path)
            if question.admits is None or question.admits(encoded):
                yield encoded


@functools.cache
def _grep_dialect(program: str) -> str:
    """The dialect nearest to ripgrep's."""
    tried = subprocess.run([program, "-P", "-e", r"\d"], input=b"1\n", capture_output=True, check=False)
    return "-P" if tried.returncode == 0 else "-E"


def _batches(paths: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for path in paths:
        batch.append(b"./" + path if path.startswith(b"-") else path)
        if len(batch) == _GREP_FILES:
            yield batch
            batch = []
    if batch:
        yield batch


class _Program:
    """A search program at work. Ended at the end of its `with`, if it has not ended by itself."""

    def __init__(self, arguments: Sequence[str | bytes], folder: Path | None) -> None:
        environment = {key: value for key, value in os.environ.items() if key != "RIPGREP_CONFIG_PATH"}
        try:
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env=environment,
            )
        except OSError as error:
            raise IoError(f"the search engine cannot be started: {(error.strerror or str(error)).lower()}") from error
        self.is_ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def step_back(self) -> None:
        """Run only while a processor has nothing else to do."""
        disk.set_idle(self._process.pid, is_idle=True)

    def hurry(self) -> None:
        disk.set_idle(self._process.pid, is_idle=False)

    def output(self, check: Callable[[], None], deadline: float) -> Iterator[bytes]:
        """What the program prints, as it prints it. Raises InvalidPattern, Timeout."""
        process = self._process
        assert process.stdout is not None, "it is a pipe"
        assert process.stderr is not None, "it is a pipe"
        descriptor = process.stdout.fileno()
        disk.widen_pipe(descriptor)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
        while True:
            if poll.poll(_POLL_MS):
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
            raise InvalidPattern(complaint.removeprefix("rg: ").removeprefix("grep: "))

    def end(self) -> None:
        if self.is_ended:
            return
        self.is_ended = True
        process = self._process
        assert process.stdout is not None, "it is a pipe"
        assert process.stderr is not None, "it is a pipe"
        process.stdout.close()
        process.stderr.close()
        if process.poll() is None:
            process.kill()
            # Its end takes longer than its answer did; nobody needs to wait for it but the system.
            threading.Thread(target=process.wait, name="search-end", daemon=True).start()


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
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
                raise TooLarge(
                    f"a line that matches is longer than {_MOST_LINE_BYTES} bytes", hint="leave that file out by a glob"
                )
    if rest:
        yield rest


def _bytes(value: dict[str, str]) -> bytes:
    text = value.get("text")
    return text.encode() if text is not None else base64.b64decode(value["bytes"])


def _text(value: dict[str, str]) -> str:
    text = value.get("text")
    return text if text is not None else _plain(base64.b64decode(value["bytes"]))


def _plain(data: bytes) -> str:
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
