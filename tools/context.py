"""What a tool is handed besides its arguments. What the host implements is a Protocol: no tool imports the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal, Protocol

from tools.files.journal import Journal
from tools.files.lines import LineIndexes
from tools.files.paths import OpenPaths, to_wire
from tools.files.revisions import Revs
from tools.files.sources import Source, is_artifact, is_reference
from tools.kit.errors import NotFound
from tools.kit.focus import Focused
from tools.kit.records import mutable
from tools.kit.rules import CommandRules
from tools.pruning.engine import Selection, SourceType
from tools.search.engine import Engine, find_engine
from tools.search.listings import Listings

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class Artifacts(Protocol):
    """Stores what is too large for a result, for one caller."""

    def keep(self, domain: str, parts: Iterable[bytes], *, media_type: str = "text/plain") -> str:
        """Store bytes and return the reference to read them by. Raises OSError."""

    def keep_file(self, domain: str, path: Path, *, media_type: str = "text/plain") -> str:
        """The same for a complete file, as a hard link where that is possible."""

    def path_of(self, reference: str) -> Path:
        """The file of the reference `ax://<domain>/<id>`. Raises NotFound, also for an artifact of another caller."""


class NoArtifacts:
    """For a host without an artifact store."""

    def keep(self, domain: str, parts: Iterable[bytes], *, media_type: str = "text/plain") -> str:
        raise OSError("no artifacts are kept here")

    def keep_file(self, domain: str, path: Path, *, media_type: str = "text/plain") -> str:
        raise OSError("no artifacts are kept here")

    def path_of(self, reference: str) -> Path:
        raise NotFound(f"{reference[:200]} is not there: no artifacts are kept here")


class ShellSession(Protocol):
    """A running or ended command, and its output: bytes of both streams in order of arrival."""

    @property
    def id(self) -> str: ...

    @property
    def pid(self) -> int: ...

    @property
    def output_path(self) -> str | None:
        """The file with its output; None while it has none."""

    @property
    def is_running(self) -> bool: ...

    @property
    def exit_code(self) -> int | None: ...

    @property
    def signal(self) -> str | None: ...

    @property
    def end(self) -> int:
        """How many bytes it has printed."""

    @property
    def age_s(self) -> float: ...

    @property
    def takes_input(self) -> bool: ...

    async def wait_for_output(self, within_s: float | None) -> bool:
        """Wait for output or the exit. False if neither came in time."""

    def text(self, offset: int, most_bytes: int) -> tuple[str, int, int]:
        """Output from `offset` on, where it really begins and where it ends."""

    @property
    def unfinished_line(self) -> str:
        """What was written to its standard input since the last line end."""

    def captured_output(self, stream: Literal["stdout", "stderr"]) -> tuple[str, str, int]:
        """The head and the tail of a stream, and the number of bytes left out between them."""

    def stored_output(self) -> Iterator[bytes]:
        """All of its output that is still stored. Any thread may iterate. Raises OSError, also during the iteration."""

    def complete_file(self) -> Path | None:
        """The file with all of its output, closed for writing; None if some is lost or in another file."""

    def read_position(self, reader: str) -> int:
        """The offset after the output that `reader` has received last."""

    def set_read_position(self, reader: str, offset: int) -> None: ...

    async def write(self, data: bytes) -> int:
        """Write to its standard input. Returns how many bytes it accepted."""

    def close_input(self) -> None: ...

    async def wait_for_exit(self, within_s: float | None) -> bool:
        """Wait for the exit. False if it did not come in time."""

    def promote(self, ends_in_s: float | None) -> bool:
        """Make the command of a call a session, ended after `ends_in_s`. False if the limit of sessions is reached."""

    def release(self, *, keeps_output: bool) -> None:
        """Forget the command of a call. With `keeps_output` its output file stays for an hour."""

    def abandon(self, grace_s: float) -> None:
        """End the command of a cancelled call, in the background."""

    async def stop(self, number: int, grace_s: float | None = None) -> bool:
        """End it with every process it started. True if SIGKILL was needed after the grace."""


class Sessions(Protocol):
    """Starts commands: sessions, which outlive the call that started them, and commands of one call."""

    def start(
        self,
        command: str,
        cwd: Path,
        *,
        connection: str,
        environment: Mapping[str, str] | None = None,
        terminal: tuple[int, int] | None = None,
        reads_stderr: bool = True,
    ) -> ShellSession:
        """Start a session. Raises SessionLimit, or a ToolError if `cwd` cannot be used."""

    def execute(
        self,
        command: str,
        cwd: Path,
        *,
        connection: str,
        captures: Mapping[Literal["stdout", "stderr"], int],
        reads_stderr: bool,
        shell: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        drops_variable: Callable[[str], bool] | None = None,
    ) -> ShellSession:
        """Start the command of one call. The caller must call `release`, `promote` or `abandon` afterwards.

        `captures` has the size of the head and tail buffer of each stream, in bytes. The environment is the daemon's,
        without the variables for which `drops_variable` is true, plus `environment`. Raises a ToolError if `cwd` cannot
        be used.
        """

    def find(self, session_id: str) -> ShellSession:
        """Raises SessionNotFound."""


class Pruner(Protocol):
    """The pruning engine, and the store of pruned texts, from which `recover_text` brings dropped lines back."""

    @property
    def version(self) -> str: ...

    @property
    def is_on(self) -> bool:
        """Whether the output of tools can be pruned with a focus question."""

    @property
    def max_input_chars(self) -> int:
        """The longest text that the built-in engine accepts."""

    async def select(
        self,
        text: str,
        question: str,
        *,
        source_type: SourceType | None,
        max_prune_ratio: float,
        min_keep_lines: int,
        timeout_s: float,
    ) -> Selection:
        """The lines that the built-in engine keeps. Raises GaveUp at the timeout, RuntimeError if the engine fails."""

    async def focus(
        self,
        text: str | Callable[[], str],
        question: str | None,
        *,
        tool: str,
        call_id: str,
        owner: str,
        markers: bool = True,
        source_type: SourceType | None = None,
        is_line: Callable[[str], bool] | None = None,
    ) -> Focused:
        """The part of a tool's output that answers a question. If pruning fails, it is the whole text.

        `text` may be a function: it is called in a thread, and its errors are raised here. Without `source_type` the
        built-in engine detects the kind of text. An answer of a remote service is discarded if `is_line` is false for
        one of its lines.
        """

    async def keep(self, owner: str, text: str) -> str:
        """Store a text for its owner and return its id. The same text has the same id."""

    async def find_text(self, owner: str, prune_id: str) -> str | None:
        """The text with that id; None if it is unknown, another owner's or too old."""


class Cancelled(Exception):
    """The call was cancelled. `ToolContext.check` raises it and the dispatcher catches it."""


def _ignore(*_: object) -> None:
    pass


@mutable
class ToolContext:
    """What one call may use; no tool changes it. Tools with long loops call `check` now and then."""

    call_id: str
    paths: OpenPaths
    # Set by the dispatcher when the call is cancelled.
    is_cancelled: bool = False
    report: Callable[[float, float | None, str | None], None] = field(default=_ignore)
    tell: Callable[[LogLevel, str], None] = field(default=_ignore)
    sessions: Sessions | None = None
    # The connection of the client. Each connection has its own read position in the output of a session.
    connection: str = ""
    # How long `shell_exec` waits before it answers with a session, if the caller does not say; 0: to the end.
    yield_ms: int = 0
    artifacts: Artifacts = field(default_factory=NoArtifacts)
    journal: Journal = field(default_factory=lambda: Journal(None))
    revs: Revs = field(default_factory=Revs)
    line_indexes: LineIndexes = field(default_factory=LineIndexes)
    listings: Listings = field(default_factory=Listings)
    engine: Engine = field(default_factory=find_engine)
    # The caller that owns artifacts and stored texts; other callers cannot read them.
    owner: str = ""
    pruner: Pruner | None = None
    # The folder of `read`, `bash` and `grep`; `read` and `grep` cannot leave it.
    root: Path = Path()
    commands: CommandRules | None = None

    def check(self) -> None:
        """Raise Cancelled if the call was cancelled. Never call it in the middle of a write."""
        if self.is_cancelled:
            raise Cancelled

    def source(self, path: str) -> Source:
        """What a path or a reference names. Raises NotFound for a reference that is unknown or another caller's."""
        if not is_reference(path):
            target = self.paths.resolve(path)
            return Source(target, to_wire(target), target)
        if is_artifact(path):
            return Source(self.artifacts.path_of(path), path, None, is_kept=True)
        place = self.journal.place_of(path)
        self.paths.check(place)
        return Source(self.journal.path_of(path), path, place, is_kept=True)

    def check_command(self, command: str) -> None:
        """Raise Denied if a deny rule matches `command`. Every tool that starts a program calls it."""
        if self.commands is not None:
            self.commands.check(command)

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress, if the caller has asked for it."""
        self.report(done, total, message)

    def log(self, level: LogLevel, text: str) -> None:
        """Send a log message to the caller, if it wants this level. It is for people and not part of the result."""
        self.tell(level, text)
