"""What a tool is handed besides its arguments. What only the host has is a Protocol here: no tool knows the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal, Protocol

from tools.files.journal import Journal
from tools.files.lines import LineIndexes
from tools.files.paths import OpenPaths, to_wire
from tools.files.revisions import Revs
from tools.files.sources import Source, is_artifact, is_undo
from tools.kit.errors import NotFound
from tools.kit.focus import Focused
from tools.kit.records import mutable
from tools.kit.rules import CommandRules
from tools.pruning.engine import Selection, SourceType
from tools.search.engine import Engine, find_engine
from tools.search.listings import Listings

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class Artifacts(Protocol):
    """Where a tool leaves what is too large for its result, on behalf of one caller."""

    def keep(self, domain: str, parts: Iterable[bytes], *, media_type: str = "text/plain") -> str:
        """The reference under which the caller finds the bytes again. Raises OSError if they cannot be kept."""

    def keep_file(self, domain: str, path: Path, *, media_type: str = "text/plain") -> str:
        """The same for a file that nobody writes to any more, without copying it where that can be avoided."""

    def path_of(self, reference: str) -> Path:
        """The file behind `ax://<domain>/<id>`. Raises NotFound, also for what another caller owns."""


class NoArtifacts:
    """For a host that keeps nothing."""

    def keep(self, domain: str, parts: Iterable[bytes], *, media_type: str = "text/plain") -> str:
        raise OSError("no artifacts are kept here")

    def keep_file(self, domain: str, path: Path, *, media_type: str = "text/plain") -> str:
        raise OSError("no artifacts are kept here")

    def path_of(self, reference: str) -> Path:
        raise NotFound(f"{reference[:200]} is not there: no artifacts are kept here")


class ShellSession(Protocol):
    """A command that runs or has run, and what it printed: bytes of both streams in order of arrival."""

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
        """What was written to its standard input since the last end of a line."""

    def captured_output(self, stream: Literal["stdout", "stderr"]) -> tuple[str, str, int]:
        """The beginning and the end of a stream, and how many bytes are missing between them."""

    def stored_output(self) -> Iterator[bytes]:
        """All of its output that is kept, to be read from any thread. Raises OSError, also while it is read."""

    def complete_file(self) -> Path | None:
        """The one file with all of its output, to which nothing is added any more; None if there is none."""

    def read_position(self, reader: str) -> int: ...

    def set_read_position(self, reader: str, offset: int) -> None: ...

    async def write(self, data: bytes) -> int:
        """Write to its standard input; how many bytes it took."""

    def close_input(self) -> None: ...

    async def wait_for_exit(self, within_s: float | None) -> bool:
        """Wait for the exit. False if it did not come in time."""

    def promote(self, ends_in_s: float | None) -> bool:
        """Make a session of a call's command, to be ended then. False if there are as many as there may be."""

    def release(self, *, keeps_output: bool) -> None:
        """The call is done with its command."""

    def abandon(self, grace_s: float) -> None:
        """End a command that nobody waits for, in the background."""

    async def stop(self, number: int, grace_s: float | None = None) -> bool:
        """End it and all that it started. True if it had to be killed after its grace."""


class Sessions(Protocol):
    """Commands that outlive the call that started them, and those that do not."""

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
        """A new session. Raises SessionLimit, or what the system says of `cwd`."""

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
        """A command of this call alone, to be released, promoted or abandoned.

        Its environment is ours without the variables for which `drops_variable` is true, then `environment`. Raises
        what the system says of `cwd`.
        """

    def find(self, session_id: str) -> ShellSession:
        """Raises SessionNotFound."""


class Pruner(Protocol):
    """The engine that prunes, and what it pruned, kept for a while so that every dropped line can be had back."""

    @property
    def version(self) -> str: ...

    @property
    def is_on(self) -> bool:
        """Whether there is an engine to ask for the focus of a tool's output."""

    @property
    def max_input_chars(self) -> int:
        """The longest text that the built-in engine is given."""

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
        """The built-in engine's choice of lines. Raises GaveUp when time is up, RuntimeError if the engine failed."""

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
        """What a question needs of a tool's output. Never fails: what cannot be pruned comes back whole.

        The text may also be had by a function, which is called in a thread and whose errors are the caller's. Without
        `source_type` the built-in engine finds out what kind of text it is. An answer of a service with a line of
        which `is_line` says that it can be none of such a text is not used.
        """

    async def keep(self, owner: str, text: str) -> str:
        """Keep a text for its owner; the id to ask for it by. The same text has the same id."""

    async def find_text(self, owner: str, prune_id: str) -> str | None:
        """The text of that id, or None if there is none of this owner, or not any more."""


class Cancelled(Exception):
    """The caller is gone or has called off; raised by `ToolContext.check` and caught by the dispatcher."""


def _ignore(*_: object) -> None:
    pass


@mutable
class ToolContext:
    """One call's surroundings, which no tool changes. Tools that loop for long call `check` now and then."""

    call_id: str
    paths: OpenPaths
    # Set by the dispatcher when nobody waits for the answer any more.
    is_cancelled: bool = False
    report: Callable[[float, float | None, str | None], None] = field(default=_ignore)
    tell: Callable[[LogLevel, str], None] = field(default=_ignore)
    sessions: Sessions | None = None
    # Who asks, as far as one conversation goes: what was given to one client has not been given to another.
    connection: str = ""
    # How long a call on this wire may wait for a command before it answers with a session; 0 is to the end.
    yield_ms: int = 0
    artifacts: Artifacts = field(default_factory=NoArtifacts)
    journal: Journal = field(default_factory=lambda: Journal(None))
    revs: Revs = field(default_factory=Revs)
    line_indexes: LineIndexes = field(default_factory=LineIndexes)
    listings: Listings = field(default_factory=Listings)
    engine: Engine = field(default_factory=find_engine)
    # Whose call it is: what is kept for one caller is not there for another.
    owner: str = ""
    pruner: Pruner | None = None
    # The folder that read, bash and grep work in; read and grep cannot leave it.
    root: Path = Path()
    commands: CommandRules | None = None

    def check(self) -> None:
        """Stop here if nobody waits for the answer any more. Never call it half-way through a write."""
        if self.is_cancelled:
            raise Cancelled

    def source(self, path: str) -> Source:
        """What a path or a reference names. Raises NotFound for a reference that is unknown or another caller's."""
        if is_artifact(path):
            return Source(self.artifacts.path_of(path), path, None, is_kept=True)
        if is_undo(path):
            place = self.journal.place_of(path)
            self.paths.check(place)
            return Source(self.journal.path_of(path), path, place, is_kept=True)
        target = self.paths.resolve(path)
        return Source(target, to_wire(target), target)

    def check_command(self, command: str) -> None:
        """Raise Denied if a rule of the owner is against running `command`. For everything that starts a program."""
        if self.commands is not None:
            self.commands.check(command)

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell a caller who asked for it how far the work is."""
        self.report(done, total, message)

    def log(self, level: LogLevel, text: str) -> None:
        """Tell a caller who listens at this level what is happening. It is for people and not part of the result."""
        self.tell(level, text)
