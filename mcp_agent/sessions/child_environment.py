"""The environment of the processes that we start: ours, without secrets and without pagers, which wait for a key."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from mcp_agent.process import process_tree
from mcp_agent.security import auth_tokens

_NO_PAGER = {"PAGER": "cat", "GIT_PAGER": "cat"}
# The terminal that we give is not the one that the daemon was started in.
_WITH_TERMINAL = {b"TERM": b"xterm-256color"}
_WITHOUT_TERMINAL = {b"TERM": b"dumb"}


class ChildEnvironment:
    """Reads our own environment once, and encodes it as `subprocess` needs it.

    Encoding it for every process would take a tenth of the start time.
    """

    def __init__(self) -> None:
        self._ours = _encode({name: value for name, value in os.environ.items() if name != auth_tokens.VARIABLE})
        self._without_pager = {**self._ours, **_encode(_NO_PAGER)}

    def of_command(
        self,
        tag: str,
        given: Mapping[str, str],
        *,
        has_terminal: bool,
        drops_variable: Callable[[str], bool] | None = None,
    ) -> dict[bytes, bytes]:
        """For a command of a caller, with the variables that it has given."""
        ours = self._without_pager
        if drops_variable is not None:
            ours = {name: value for name, value in ours.items() if not drops_variable(os.fsdecode(name))}
        terminal = _WITH_TERMINAL if has_terminal else _WITHOUT_TERMINAL
        return {**ours, **terminal, **_encode(given), **_encode({process_tree.TAG: tag})}

    def of_program(self, tag: str, given: Mapping[str, str], *, has_terminal: bool) -> dict[bytes, bytes]:
        """For a program of the daemon itself. With a terminal it is the shell of a person, who may want a pager."""
        ours = {**self._ours, **_WITH_TERMINAL} if has_terminal else self._without_pager
        return {**ours, **_encode(given), **_encode({process_tree.TAG: tag})}


def _encode(environment: Mapping[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
