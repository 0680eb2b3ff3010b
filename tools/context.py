"""What a tool is handed besides its arguments, and the ports behind it, as Protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tools.errors import NotFound
from tools.filesystem.ripgrep import Engine, find_engine
from tools.journal import Journal
from tools.lines import LineIndexes
from tools.revs import Revs


class Paths(Protocol):
    """How a path that a caller wrote becomes a path on this machine. Raises Denied for the daemon's own files."""

    def resolve(self, path: str) -> Path:
        """Absolute and canonical; symbolic links are left as they are. Raises InvalidPath."""

    def real(self, path: Path) -> Path:
        """Where `path` leads when its links are followed; the end need not exist."""

    def check(self, path: Path | str) -> None:
        """Raise Denied if an absolute path may not be touched."""

    def check_tree(self, path: Path) -> None:
        """Raise Denied if something at, above or below `path` may not be touched."""

    def check_open(self, descriptor: int) -> None:
        """Raise Denied if an open file may not be touched, whatever links led to it."""

    def closed_within(self, folder: Path) -> tuple[Path, ...]:
        """The places below `folder` that may not be touched."""

    def is_local(self, path: Path) -> bool:
        """Whether looking at `path` cannot hang: by its name it is on a disk of this machine."""


class Artifacts(Protocol):
    """Where a tool leaves what is too large for its result, on behalf of one caller."""

    def keep(self, domain: str, parts: Iterable[bytes], *, media_type: str = "text/plain") -> str:
        """The reference under which the caller finds the bytes again. Raises OSError if they cannot be kept."""

    def path_of(self, reference: str) -> Path:
        """The file behind `ax://<domain>/<id>`. Raises NotFound, also for what another caller owns."""


class NoArtifacts:
    """For a host that keeps nothing."""

    def keep(self, domain: str, parts: Iterable[bytes], *, media_type: str = "text/plain") -> str:
        raise OSError("no artifacts are kept here")

    def path_of(self, reference: str) -> Path:
        raise NotFound(f"{reference[:200]} is not there: no artifacts are kept here")


class Cancelled(Exception):
    """The caller is gone or has called off; raised by `ToolContext.check` and caught by the dispatcher."""


def _never() -> bool:
    return False


def _unheard(done: float, total: float | None, message: str | None) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ToolContext:
    """One call's surroundings. Tools that loop for long call `check` now and then."""

    call_id: str
    paths: Paths
    is_cancelled: Callable[[], bool] = field(default=_never)
    report: Callable[[float, float | None, str | None], None] = field(default=_unheard)
    artifacts: Artifacts = field(default_factory=NoArtifacts)
    journal: Journal = field(default_factory=lambda: Journal(None))
    revs: Revs = field(default_factory=Revs)
    line_indexes: LineIndexes = field(default_factory=LineIndexes)
    engine: Engine = field(default_factory=find_engine)

    def check(self) -> None:
        """Stop here if nobody waits for the answer any more. Never call it half-way through a write."""
        if self.is_cancelled():
            raise Cancelled

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell a caller who asked for it how far the work is."""
        self.report(done, total, message)
