"""The instructions for a model: what it should know of this host before its first call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from registry.gate import Access, Gate

_ON_STDIO = "These tools act on the machine that mcp-agent runs on, with the rights of the user who started it."
_OVER_HTTP = (
    "These tools act on the machine of the daemon, which need not be the one the chat runs on, with the rights of the "
    "user who started it there."
)
_OF_A_FLEET = (
    "These tools act on the boxes of a fleet: `box` is the name of one, or labels that fit one (gpu=1,zone=eu). "
    "Without it a call goes to the box chosen with box_use, or to the only one. An id finds its box by itself."
)
_UNSURE = "After OUTCOME_UNKNOWN, or BOX_UNREACHABLE with may_have_run, look at what was done before you call again."
_LINES = {
    "filesystem": (
        "Files: find with fs_search and fs_grep, read with fs_read_range, change with fs_patch. A result with an "
        'undo_id can be undone: fs_move with from: "undo://<undo_id>" and to: the path.'
    ),
    "shell": (
        "Commands: shell_exec for what ends by itself, shell_start_session for servers, logs and prompts; read "
        "and answer those with shell_send_input, end them with shell_stop_session."
    ),
    "pruning": (
        "Long output: pass context_focus_question, what you want to know of it, to get only the lines that answer it; "
        "recover_text brings back the lines behind a ⟦PRUNED: …⟧ marker."
    ),
    "artifacts": "What is too large for a result is kept: its artifactRef is read with artifact_read or fs_grep.",
}
_CUT = "Long answers are cut at a stated limit and say so: `truncated`, and what to pass to go on."
_SHORT = (
    "Results are kept short: read `summary` first. The same tool with cursor: the nextCursor goes on, without doing "
    "anything again; artifactRef has all of it."
)
_OR_YOURS = ", or from your own folder where the first result says so"
_MOST_COMMAND = 60


class LiveSession(Protocol):
    """What the instructions say of a running session."""

    @property
    def id(self) -> str: ...

    command: str


def instructions(
    gate: Gate,
    access: Access,
    working_directory: Path | None,
    live_sessions: Sequence[LiveSession] = (),
    *,
    names_folder: bool = False,
    is_child: bool = False,
) -> str:
    """A dozen lines at most; the first says enough for a client that keeps only the first.

    Nothing in them changes by itself with time: a prompt cache lasts only as long as they stay the same. With
    `is_child`, the client has started us; with `names_folder` it says where it works.
    Without a working directory, the tools are those of a fleet.
    """
    seen = {tool.category for tool in gate.visible(access)}
    if working_directory is None:
        first = [_OF_A_FLEET, "Relative paths count from the box's own folder; results give absolute ones.", _UNSURE]
    else:
        first = [
            _ON_STDIO if is_child else _OVER_HTTP,
            f"Relative paths count from {working_directory}{_OR_YOURS if names_folder else ''}; "
            "results give absolute ones.",
        ]
    lines = [
        *first,
        *(line for category, line in _LINES.items() if category in seen),
        *(_running(live_sessions) if "shell" in seen and live_sessions else ()),
        _SHORT if gate.form(access) == "compact" else _CUT,
        "An error result has a code, a message and often a hint; the hint is the next thing to try.",
        "The owner can switch tools off at any time. TOOL_DISABLED means that, and trying again does not help.",
        "The resource host://tools lists every tool with its switch.",
    ]
    return "\n".join(lines)


def _running(live_sessions: Sequence[LiveSession]) -> list[str]:
    told = (f"{each.id} ({_brief(each.command)})" for each in live_sessions)
    return [f"Sessions that run now, also those of other clients: {'; '.join(told)}."]


def _brief(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= _MOST_COMMAND else f"{line[: _MOST_COMMAND - 1]}…"
