"""The instructions for a model: what it should know of this host before its first call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from registry.gate import Access, Gate

_LINES = {
    "filesystem": (
        "Files: find with fs_search and fs_grep, read with fs_read_range, change with fs_patch. Every change can be "
        'undone: fs_move with from: "undo://<undo_id>" and to: the path.'
    ),
    "shell": (
        "Commands: shell_exec for what ends by itself, shell_start_session for servers, logs and prompts; read "
        "and answer those with shell_send_input, end them with shell_stop_session."
    ),
    "pruning": (
        "Long output: pass context_focus_question, what you want to know of it, to get only the lines that answer it; "
        "recover_text brings back the lines behind a ⟦PRUNÉ: …⟧ marker."
    ),
    "artifacts": "What is too large for a result is kept: its artifactRef is read with artifact_read or fs_grep.",
}
_CUT = "Long answers are cut at a stated limit and say so: `truncated`, and what to pass to go on."
_SHORT = (
    "Results are kept short: read `summary` first. The same tool with cursor: the nextCursor goes on, without doing "
    "anything again; artifactRef has all of it."
)
_MOST_COMMAND = 60


class LiveSession(Protocol):
    """What the instructions say of a running session."""

    @property
    def id(self) -> str: ...

    @property
    def age_s(self) -> float: ...

    command: str


def instructions(gate: Gate, access: Access, working_directory: Path, live_sessions: Sequence[LiveSession] = ()) -> str:
    """A dozen lines at most; the first says enough for a client that keeps only the first."""
    seen = {tool.category for tool in gate.visible(access)}
    lines = [
        "These tools act on a remote machine, not on the one the chat runs on, with the rights of the user who "
        "started the daemon there.",
        f"Relative paths count from {working_directory}; results give absolute ones.",
        *(line for category, line in _LINES.items() if category in seen),
        *(_running(live_sessions) if "shell" in seen and live_sessions else ()),
        _SHORT if gate.form(access) == "compact" else _CUT,
        "An error result has a code, a message and often a hint; the hint is the next thing to try.",
        "The owner can switch tools off at any time. TOOL_DISABLED means that, and trying again does not help.",
        "The resource host://tools lists every tool with its switch.",
    ]
    return "\n".join(lines)


def _running(live_sessions: Sequence[LiveSession]) -> list[str]:
    told = (f"{each.id} ({_brief(each.command)}, {round(each.age_s)} s)" for each in live_sessions)
    return [f"Sessions that run now, also those of other clients: {'; '.join(told)}."]


def _brief(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= _MOST_COMMAND else f"{line[: _MOST_COMMAND - 1]}…"
