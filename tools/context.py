"""What a tool is handed besides its arguments, and the ports behind it, as Protocols."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class Paths(Protocol):
    """How a path that a caller wrote becomes a path on this machine."""

    def resolve(self, path: str) -> Path:
        """Absolute and canonical; symbolic links are left as they are. Raises InvalidPath."""

    def is_local(self, path: Path) -> bool:
        """Whether looking at `path` cannot hang: by its name it is on a disk of this machine."""


class Cancelled(Exception):
    """The caller is gone or has called off; raised by `ToolContext.check` and caught by the dispatcher."""


def _never() -> bool:
    return False


def _unheard(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ToolContext:
    """One call's surroundings. Tools that loop for long call `check` now and then."""

    call_id: str
    paths: Paths
    is_cancelled: Callable[[], bool] = field(default=_never)
    report: Callable[[float, float | None, str | None], None] = field(default=_unheard)
    tell: Callable[[LogLevel, str], None] = field(default=_unheard)

    def check(self) -> None:
        """Stop here if nobody waits for the answer any more. Never call it half-way through a write."""
        if self.is_cancelled():
            raise Cancelled

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell a caller who asked for it how far the work is."""
        self.report(done, total, message)

    def log(self, level: LogLevel, text: str) -> None:
        """Tell a caller who listens at this level what is happening. It is for people and not part of the result."""
        self.tell(level, text)
