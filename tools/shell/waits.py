"""What a call waits for in a session: its end, a pattern, a pause in the output, or something beside the output."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tools.context import REPORT_EVERY_S, ToolContext
from tools.kit.errors import InvalidParams, InvalidPattern
from tools.kit.timed_match import match_within
from tools.sessions.session import Session
from tools.shell.command_progress import CommandProgress
from tools.shell.shell_exec import sessions

PAUSE_S = 0.15
# Nothing tells of a port or a file, so it is looked at so often.
_LOOK_EVERY_S = 0.2
_PAGE_BYTES = 100_000
_OVERLAP_CHARS = 4_000
_MATCH_S = 0.05
_MOST_PATTERN_CHARS = 10_000
_MOST_EVENTS = 20
# The state of a socket in the tables of the kernel.
_LISTENS = "0A"
# As ids of sessions are: some models leave the word away.
_SESSION = re.compile(r"s[0-9a-f]{8}")
_QUIET = re.compile(r"(\d{1,4}(?:\.\d{1,3})?) ?s?")
# Colours, cursor movements and settings of a terminal, which a line editor prints around an echo.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_=>])")
_UNSEEN = re.compile(r"[\s\x07\x08]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_TYPED_LINE_END = re.compile(r"\r\n|\r|\n")
# An echo is longer than what was typed: line ends, control characters as ^C, escapes of a line editor.
_MOST_ESCAPES_BYTES = 4_096
_MOST_BYTES_A_CHARACTER = 8


class AwaitedEvent(NamedTuple):
    """Something that ends a wait and that is looked for, because nothing tells of it."""

    name: str
    # It may wait for a disk, and is asked in a thread.
    is_there: Callable[[], bool]


class Awaited(NamedTuple):
    """What ends a wait besides the time limit. Without any of it, it is a pause after output has begun."""

    pattern: Any = None
    # How long nothing may be printed.
    quiet_s: float | None = None
    events: tuple[AwaitedEvent, ...] = ()
    is_for_exit: bool = False

    def __bool__(self) -> bool:
        return self != _NOTHING

    def first_there(self) -> str | None:
        return next((event.name for event in self.events if event.is_there()), None)


_NOTHING = Awaited()


class _Seen(NamedTuple):
    """Up to where the pattern was looked for, and what stands before that."""

    offset: int
    context: str = ""


def read_awaited(ctx: ToolContext, folder: Path, until: str | None, wait_for: Sequence[str] | None) -> Awaited:
    """What `until` and `wait_for` name; relative files are in `folder`.

    Raises InvalidParams, InvalidPattern, SessionNotFound, Denied.
    """
    quiet_s: float | None = None
    events: list[AwaitedEvent] = []
    is_for_exit = False
    if wait_for is not None and len(wait_for) > _MOST_EVENTS:
        raise _unknown(f"{len(wait_for)} of them", len(wait_for) - 1)
    for index, text in enumerate(wait_for or ()):
        kind, _, what = (part.strip() for part in text.strip().partition(":"))
        if _SESSION.fullmatch(kind) and not what:
            kind, what = "session", kind
        if kind == "exit" and not what:
            is_for_exit = True
        elif kind == "port" and what.isdecimal() and 0 < int(what) < 65_536:
            events.append(AwaitedEvent(f"port:{what}", partial(_is_listening, int(what))))
        elif kind == "file" and what:
            path = ctx.paths.resolve(str(folder / Path(what).expanduser()))
            events.append(AwaitedEvent(f"file:{what}", ctx.paths.real(path).exists))
        elif kind == "quiet" and (found := _QUIET.fullmatch(what)):
            quiet_s = float(found[1])
        elif kind == "session" and what:
            events.append(AwaitedEvent(f"session:{what}", partial(_has_ended, sessions(ctx).find(what))))
        else:
            raise _unknown(repr(text[:60]), index)
    return Awaited(None if until is None else compile_pattern(until), quiet_s, tuple(events), is_for_exit)


def _unknown(what: str, index: int) -> InvalidParams:
    path = f"arguments.wait_for.{index}"
    issue = {"path": path, "code": "invalid_string", "message": "invalid_string"}
    kinds = '"exit", "port:8000", "file:PATH", "quiet:5" (seconds) or "session:ID"'
    raise InvalidParams(
        f"wait_for has {what}; an element is {kinds}, and there are at most {_MOST_EVENTS}", issues=[issue]
    )


async def wait_until(
    ctx: ToolContext,
    session: Session,
    wait_s: float,
    awaited: Awaited = _NOTHING,
    *,
    new_from: int = 0,
    search_from: int = 0,
    typed: str = "",
) -> str | None:
    """Wait, and return the name of what has come: "exit", "until", "quiet", "pause", or that of an event. None if the
    time was over.

    Output counts as new from `new_from` on, apart from the echo of `typed`; the pattern is looked for from
    `search_from` on.
    """
    loop = asyncio.get_running_loop()
    progress = CommandProgress(ctx, session)
    deadline = loop.time() + wait_s
    had_ended = not session.is_running
    seen, printed, printed_at = _Seen(search_from), session.end, loop.time()
    while True:
        if awaited.pattern is not None:
            seen, is_found = _search(session, awaited.pattern, seen)
            if is_found:
                return "until"
        if awaited.events and (name := await asyncio.to_thread(awaited.first_there)):
            return name
        now = loop.time()
        if not session.is_running and not _goes_on(session, awaited, had_ended=had_ended):
            return "exit"
        if session.end > printed:
            printed, printed_at = session.end, now
        if awaited.quiet_s is not None and now - printed_at >= awaited.quiet_s:
            return "quiet"
        if now >= deadline:
            return None
        has_begun = not awaited and _has_begun(session, new_from, typed)
        within_s = min(
            deadline - now,
            PAUSE_S if has_begun else wait_s,
            _LOOK_EVERY_S if awaited.events else wait_s,
            wait_s if awaited.quiet_s is None else printed_at + awaited.quiet_s - now,
            REPORT_EVERY_S if ctx.wants_progress else wait_s,
        )
        if session.is_running:
            has_news = await session.wait_for_output(within_s)
        else:
            has_news = False
            await asyncio.sleep(within_s)
        if has_begun and not has_news:
            return "pause"
        progress.report()


def _goes_on(session: Session, awaited: Awaited, *, had_ended: bool) -> bool:
    """Whether to wait although the command has ended: for what it may have left behind it, if it did not fail."""
    return bool(awaited.events) and not awaited.is_for_exit and (had_ended or session.exit_code == 0)


def _has_ended(session: Session) -> bool:
    return not session.is_running


def _is_listening(port: int) -> bool:
    """Whether a program of this machine listens on a TCP port. It is not called: it might serve one caller only."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table) as lines:
            for line in lines:
                fields = line.split(None, 4)
                if fields[1].endswith(wanted) and fields[3] == _LISTENS:
                    return True
    return False


def _has_begun(session: Session, new_from: int, typed: str) -> bool:
    """Whether there is new output that is no echo of what was typed."""
    if session.end <= new_from or not typed:
        return session.end > new_from
    text, _, _ = session.text(new_from, _longest_echo_bytes(typed))
    return not is_only_echo(text, typed)


def _longest_echo_bytes(typed: str) -> int:
    """How much output must be looked at to tell an echo of `typed` from an answer."""
    return len(typed) * _MOST_BYTES_A_CHARACTER + _MOST_ESCAPES_BYTES


def is_only_echo(output: str, typed: str) -> bool:
    """Whether `output` is the echo of `typed`, or the beginning of it, and nothing besides."""
    plain = _ESCAPES.sub("", output)
    if plain.count("\n") > len(_TYPED_LINE_END.findall(typed)):
        return False
    expected = _CONTROL.sub(_caret, _UNSEEN.sub("", typed))
    return expected.startswith(_UNSEEN.sub("", plain))


def _caret(control: re.Match[str]) -> str:
    """A control character as a terminal shows it: ^C."""
    return f"^{chr(ord(control[0]) ^ 0x40)}"


def _search(session: Session, pattern: Any, seen: _Seen) -> tuple[_Seen, bool]:
    searched, context = seen
    while searched < session.end:
        text, _, searched = session.text(searched, _PAGE_BYTES)
        if _matches(pattern, context + text):
            return _Seen(searched), True
        context = (context + text)[-_OVERLAP_CHARS:]
    return _Seen(searched, context), False


def compile_pattern(until: str) -> Any:
    """Raises InvalidPattern."""
    # Imported at first use: it is slow to load.
    import regex

    if len(until) > _MOST_PATTERN_CHARS:
        raise InvalidPattern(f"until has {len(until):,} characters, and may have {_MOST_PATTERN_CHARS:,}")
    try:
        return regex.compile(until, regex.MULTILINE)
    except RecursionError:
        raise InvalidPattern("until is nested too deep") from None
    except regex.error as error:
        raise InvalidPattern(f"until is not a regular expression: {error}") from None


def _matches(pattern: Any, text: str) -> bool:
    try:
        return match_within(_MATCH_S, pattern.search, text) is not None
    except TimeoutError:
        raise InvalidPattern(
            "until takes too long to match", hint="use a simpler pattern: nested repeats are what makes it slow"
        ) from None
