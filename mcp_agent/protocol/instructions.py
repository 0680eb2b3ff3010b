"""The instructions for a model: what it should know of this host before its first call."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterator, Mapping, Sequence
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
# What tools are for, by the first word of the line. A tool that the caller does not have is left out.
_USES: Mapping[str, Sequence[tuple[tuple[str, ...], str]]] = {
    "Files": (
        (("fs_search", "fs_grep"), "find with {}"),
        (("fs_read_range",), "read with {}"),
        (("fs_patch",), "change with {}"),
    ),
    "Commands": (
        (("shell_exec",), "{} for what ends by itself"),
        (("shell_start_session",), "{} for servers, logs and prompts"),
        (("shell_send_input",), "read and answer those with {}"),
        (("shell_stop_session",), "end them with {}"),
    ),
}
_UNDO = 'A result with an undo_id can be undone: fs_move with from: "undo://<undo_id>" and to: the path.'
_FOCUS = "Long output: pass context_focus_question, what you want to know of it, to get only the lines that answer it"
_RECOVER = "; recover_text brings back the lines behind a ⟦PRUNED: …⟧ marker"
_KEPT = "What is too large for a result is kept: its artifactRef is read with {}."
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
    reads_resources: bool = True,
) -> str:
    """A dozen lines at most; the first says enough for a client that keeps only the first.

    Nothing in them changes by itself with time: a prompt cache lasts only as long as they stay the same. With
    `is_child`, the client has started us; with `names_folder` it says where it works; only a client that
    `reads_resources` is told of them.
    Without a working directory, the tools are those of a fleet.
    """
    seen = {tool.name for tool in gate.visible(access)}
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
        *_uses(seen, has_machine=working_directory is not None),
        *(_running(live_sessions) if gate.offers(access, "shell") and live_sessions else ()),
        _SHORT if gate.form(access) == "compact" else _CUT,
        "An error result has a code, a message and often a hint; the hint is the next thing to try.",
        "The owner can switch tools off at any time. TOOL_DISABLED means that, and trying again does not help.",
        *(("The resource host://tools lists every tool with its switch.",) if reads_resources else ()),
    ]
    return "\n".join(lines)


def _uses(seen: Collection[str], *, has_machine: bool) -> Iterator[str]:
    """What the tools that a caller has are for."""
    for subject, uses in _USES.items():
        had = [([each for each in names if each in seen], use) for names, use in uses]
        told = [use.format(" and ".join(names)) for names, use in had if names]
        line = f"{subject}: {', '.join(told)}." if told else ""
        if subject == "Files" and {"fs_move", "fs_write"} <= set(seen):
            line += f" {_UNDO}"
        if subject == "Commands" and has_machine and "shell_exec" in seen:
            line += f" They run in sh on {_system()}."
        if line:
            yield line.strip()
    if not {"read", "bash", "grep", "prune_text"}.isdisjoint(seen):
        yield f"{_FOCUS}{_RECOVER if 'recover_text' in seen else ''}."
    if "artifact_read" in seen:
        yield _KEPT.format("artifact_read or fs_grep" if "fs_grep" in seen else "artifact_read")


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = platform.system()
    return f"{name}, {platform.machine()}"


def _running(live_sessions: Sequence[LiveSession]) -> list[str]:
    told = (f"{each.id} ({_brief(each.command)})" for each in live_sessions)
    return [f"Sessions that run now, also those of other clients: {'; '.join(told)}."]


def _brief(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= _MOST_COMMAND else f"{line[: _MOST_COMMAND - 1]}…"
