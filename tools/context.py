"""What a tool is handed besides its arguments. What the host implements is a Protocol: no tool imports the host."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct, field

from tools.files.documents import DocumentReader
from tools.files.images import ImageScaler
from tools.files.lines import LineIndexes
from tools.files.paths import OpenPaths, to_wire
from tools.files.revisions import Revs
from tools.files.sources import Source, is_artifact, is_reference
from tools.journal.journal import Journal
from tools.kit.errors import NotFound
from tools.kit.results import Focused
from tools.kit.rules import CommandRules
from tools.pruning.engine import Language, Selection, SelectionRequest, SourceType
from tools.search.engine import Engine, find_engine
from tools.search.listings import Listings
from tools.sessions.origin import Origin

if TYPE_CHECKING:
    # Few tools start processes, and what it takes to do so is slow to load.
    from tools.effects.tracker import ChangeTracker
    from tools.sessions.manager import SessionManager

# Progress is reported at most so often.
REPORT_EVERY_S = 0.5
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


class TextRoom(Protocol):
    """How much text a result may have: for a model, and some clients count lines, or the text as JSON."""

    @property
    def most_bytes(self) -> int: ...

    def holds(self, text: str) -> bool:
        """Whether all of a text fits."""


class FocusRequest(Struct, frozen=True, kw_only=True):
    """The output of a tool, and the question that its caller asks of it."""

    text: str
    question: str | None
    tool: str
    call_id: str
    owner: str
    # Whether each gap is marked; if not, the answer has the numbers of the kept lines.
    markers: bool = True
    # None: the built-in engine detects it.
    source_type: SourceType | None = None
    # Whether a command printed the text.
    is_output: bool = False
    # The share of the lines to keep at least. None: the kind of text decides.
    keep: float | None = None
    # The answer of a remote service is discarded if this is false for one of its lines.
    is_line: Callable[[str], bool] | None = None
    # A second text, such as what a command printed to the other stream. The built-in engine reads both as one; a
    # service does not get it.
    more: str = ""
    # Whether one failure of each kind stays, and the others are counted.
    collapses: bool = True
    # What does not fit is pruned further, if the caller names no share.
    room_bytes: int | None = None


class Pruner(Protocol):
    """The pruning engine, and the store of pruned texts, from which `recover_text` brings dropped lines back."""

    @property
    def version(self) -> str: ...

    @property
    def is_on(self) -> bool:
        """Whether the output of tools can be pruned with a focus question."""

    @property
    def prunes_failures(self) -> bool:
        """Whether the output of a command that failed is pruned like any other."""

    @property
    def language(self) -> Language:
        """The language of the markers."""

    @property
    def max_input_chars(self) -> int:
        """The longest text that the built-in engine accepts."""

    async def select(self, text: str, request: SelectionRequest) -> Selection:
        """The lines that the built-in engine keeps. Raises GaveUp at the timeout, RuntimeError if the engine fails."""

    async def focus(self, request: FocusRequest) -> Focused:
        """The part of a tool's output that answers the question. If pruning fails, it is the whole text."""

    async def keep(self, owner: str, text: str) -> str:
        """Store a text for its owner and return its id. The same text has the same id."""

    async def find_text(self, owner: str, prune_id: str) -> str | None:
        """The text with that id; None if it is unknown, another owner's or too old."""


class Cancelled(Exception):
    """The call was cancelled. `ToolContext.check` raises it and the dispatcher catches it."""


def _ignore(*_: object) -> None:
    pass


class ToolContext(Struct, eq=False):
    """What one call may use; no tool changes it. Tools with long loops call `check` now and then."""

    call_id: str
    paths: OpenPaths
    # Set by the dispatcher when the call is cancelled.
    is_cancelled: bool = False
    report: Callable[[float, float | None, str | None], None] = field(default=_ignore)
    tell: Callable[[LogLevel, str], None] = field(default=_ignore)
    sessions: SessionManager | None = None
    # Tells what commands did to files; None where nobody is told.
    effects: ChangeTracker | None = None
    # What a session is listed by, and what ends it: a wire may have connections, a client may name users and chats.
    origin: Origin = Origin()
    # How long `shell_exec` waits before it answers with a session, if the caller does not say; 0: to the end.
    yield_ms: int = 0
    # How long a call may wait for something in a session.
    most_wait_ms: int = 30_000
    # How much text the result has room for: a tool that can go on need not give more. None: a message's.
    text_room: TextRoom | None = None
    # How long the diff of a change may become in a result.
    diff_chars: int = 8_000
    # Whether a change of a file is looked at for new syntax errors.
    checks_syntax: bool = True
    # Whether a model is given the result as text: an edit that can mean only one place is made.
    is_for_model: bool = False
    artifacts: Artifacts = field(default_factory=NoArtifacts)
    journal: Journal = field(default_factory=lambda: Journal(None))
    revs: Revs = field(default_factory=Revs)
    line_indexes: LineIndexes = field(default_factory=LineIndexes)
    listings: Listings = field(default_factory=Listings)
    image_scaler: ImageScaler = field(default_factory=ImageScaler)
    documents: DocumentReader = field(default_factory=DocumentReader)
    engine: Engine = field(default_factory=find_engine)
    # The caller that owns artifacts and stored texts; other callers cannot read them.
    owner: str = ""
    pruner: Pruner | None = None
    # The folder that `read`, `grep` and the cwd of `bash` cannot leave; None where they may go anywhere.
    root: Path | None = None
    commands: CommandRules | None = None
    # When `check` was first called, and when it last reported progress.
    checked_at: float = 0.0
    reported_at: float = 0.0

    def check(self) -> None:
        """Raise Cancelled if the call was cancelled. Never call it in the middle of a write.

        A caller that asked for progress hears at most twice a second that the work goes on.
        """
        if self.is_cancelled:
            raise Cancelled
        if self.report is not _ignore:
            self._report_time()

    @property
    def conversations(self) -> tuple[str, ...]:
        """The conversations of the call, closest first. Each has its own read position in the output of a session."""
        return self.origin.conversations

    @property
    def wants_progress(self) -> bool:
        """Whether the caller has asked for progress."""
        return self.report is not _ignore

    def _report_time(self) -> None:
        now = time.monotonic()
        if not self.checked_at:
            self.checked_at = self.reported_at = now
        elif now - self.reported_at >= REPORT_EVERY_S:
            self.reported_at = now
            self.report(round(now - self.checked_at, 1), None, f"at work for {now - self.checked_at:.0f} s")

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
