"""What a call waits for in the output of a session: its end, a pattern, or a pause after output has begun."""

from __future__ import annotations

import asyncio
from typing import Any

from tools.kit.errors import InvalidPattern
from tools.kit.timed_match import match_within
from tools.sessions.session import Session
from tools.shell.echo import is_only_echo, longest_echo_bytes

PAUSE_S = 0.15
_PAGE_BYTES = 100_000
_OVERLAP_CHARS = 4_000
_MATCH_S = 0.05


async def wait_for(
    session: Session, wait_s: float, *, new_from: int = 0, search_from: int = 0, pattern: Any = None, typed: str = ""
) -> bool | None:
    """Wait for the end, the pattern, a pause after output, or the time limit. True if the pattern was found.

    Output counts as new from `new_from` on, apart from the echo of `typed`; the pattern is looked for from
    `search_from` on.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    searched, context = search_from, ""
    while True:
        if pattern is not None:
            while searched < session.end:
                text, _, searched = session.text(searched, _PAGE_BYTES)
                if _matches(pattern, context + text):
                    return True
                context = (context + text)[-_OVERLAP_CHARS:]
        left_s = deadline - loop.time()
        if not session.is_running or left_s <= 0:
            return None if pattern is None else False
        has_begun = session.end > new_from
        if has_begun and typed:
            text, _, _ = session.text(new_from, longest_echo_bytes(typed))
            has_begun = not is_only_echo(text, typed)
        within_s = min(left_s, PAUSE_S) if has_begun and pattern is None else left_s
        if not await session.wait_for_output(within_s) and has_begun and pattern is None:
            return None


def compile_pattern(until: str) -> Any:
    """Raises InvalidPattern."""
    # Imported at first use: it is slow to load.
    import regex

    try:
        return regex.compile(until, regex.MULTILINE)
    except regex.error as error:
        raise InvalidPattern(f"until is not a regular expression: {error}") from None


def _matches(pattern: Any, text: str) -> bool:
    try:
        return match_within(_MATCH_S, pattern.search, text) is not None
    except TimeoutError:
        raise InvalidPattern(
            "until takes too long to match", hint="use a simpler pattern: nested repeats are what makes it slow"
        ) from None
