"""Arguments that models write from habit, for the tools of the client they were trained on, and what they are here.

One table: tool, foreign argument, what becomes of it. It is asked only on the MCP wires of the daemon, for a call that
does not fit its schema. Mere other names of an argument are its `aliases`; here is what has another unit or shape, and
what only a hidden argument can say. A note says where something of it is lost.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tools.kit.params import PATH_ALIASES

Given = Mapping[str, Any]


class Meant(NamedTuple):
    """Arguments of ours that mean the same; none if the tool does so anyway."""

    values: Given
    note: str | None = None


# Given the value and all arguments of the call; None if the value is not one that the habit has.
Habit = Callable[[Any, Given], Meant | None]

_NOTHING = Meant({})
# A model means milliseconds by more than this, and seconds by less.
_MOST_SECONDS = 1_000
_TOKEN_BYTES = 4
_MOST_MATCHES = 100_000
_SHELLS = ("sh", "bash", "zsh", "dash", "ash", "ksh")
# `patch` is the list of operations, too.
PATCH_STARTS = ("*** Begin Patch", "*** Update File:", "*** Add File:", "*** Delete File:", "--- ", "diff --git ", "@@")


def take_habits(tool: str, arguments: Given) -> tuple[dict[str, Any], list[str]]:
    """The arguments as our tool has them, as far as they are habits, and notes on what is lost."""
    table = HABITS.get(tool, {})
    taken = {name: value for name, value in arguments.items() if name not in table}
    notes: list[str] = []
    for name, value in arguments.items():
        if name not in table or value is None:
            continue
        meant = table[name](value, arguments)
        if meant is None:
            taken.setdefault(name, value)
            continue
        for key, each in meant.values.items():
            if taken.setdefault(key, each) != each:
                notes.append(f"{name} was left aside, because {key} is there")
        notes += [meant.note] if meant.note else []
    if tool in _SEARCHES and all(arguments.get(name) is None for name in PATH_ALIASES):
        taken["base"] = "."
    return taken, notes


def _drop(value: Any, given: Given) -> Meant:
    """It is a label for a person, or asks for what the tool always does."""
    return _NOTHING


def _aside(why: str) -> Habit:
    """It asks for what the tool cannot do, unless it is false."""
    return lambda value, given: Meant({}, why) if value not in (False, "", "use_default") else _NOTHING


def _as(name: str) -> Habit:
    return lambda value, given: Meant({name: value})


def _as_opposite(name: str) -> Habit:
    return lambda value, given: Meant({name: not value}) if isinstance(value, bool) else None


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and value.strip().lstrip("-").isdigit() and len(value) < 16:
        return int(value)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _first_line(value: Any, given: Given) -> Meant | None:
    """Lines count from 1; some clients count from 0."""
    line = _whole(value)
    return None if line is None else Meant({"start_line": line if line < 0 else max(line, 1)})


def _line_count(value: Any, given: Given) -> Meant | None:
    """How many lines from `offset` or `start_line` on."""
    count, start = _whole(value), _whole(given.get("offset") or given.get("start_line") or 1)
    if count is None or start is None or count < 1 or start < 0:
        return None
    return Meant({"start_line": max(start, 1), "end_line": max(start, 1) + count - 1})


def _line_range(value: Any, given: Given) -> Meant | None:
    bounds = [_whole(each) for each in value] if isinstance(value, list) else []
    return None if len(bounds) != 2 or None in bounds else Meant({"start_line": bounds[0], "end_line": bounds[1]})


def _command(value: Any, given: Given) -> Meant | None:
    """A list of words; of a shell with `-c`, its command line."""
    if isinstance(value, str):
        return Meant({"command": value})
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        return None
    is_shell = len(value) == 3 and value[0].rpartition("/")[2] in _SHELLS and value[1] in ("-c", "-lc", "-ilc", "-cl")
    return Meant({"command": value[2] if is_shell else shlex.join(value)})


def _seconds(value: Any) -> float | None:
    """How long a command may take, as `timeout` has it."""
    number = float(value) if isinstance(value, str) and value.strip().replace(".", "", 1).isdigit() else value
    if not isinstance(number, int | float) or isinstance(number, bool) or number <= 0:
        return None
    return number / 1000 if number > _MOST_SECONDS else number


def _timeout(value: Any, given: Given) -> Meant | None:
    limit_s = _seconds(value)
    return None if limit_s is None else Meant({"timeout_seconds": limit_s})


def _timeout_ms(value: Any, given: Given) -> Meant | None:
    limit_s = _seconds(value)
    if limit_s is None:
        return None
    limit_ms = min(max(round(limit_s * 1000), 100), 300_000)
    note = f"the command may take {limit_ms} ms, the most there is" if limit_ms < limit_s * 1000 else None
    return Meant({"timeout_ms": limit_ms}, note)


def _milliseconds(value: Any, given: Given) -> Meant | None:
    number = _whole(value)
    return None if number is None else Meant({"timeout_seconds": max(number, 10) / 1000})


def _as_milliseconds(value: Any, given: Given) -> Meant | None:
    number = _whole(value)
    return None if number is None else Meant({"timeout_ms": min(max(number * 1000, 100), 300_000)})


def _in_background(value: Any, given: Given) -> Meant | None:
    """The command becomes a session at once."""
    return Meant({"yield_ms": 1} if value in (True, "true") else {})


def _yield_ms(value: Any, given: Given) -> Meant | None:
    """0 is at once; here it would be never."""
    number = _whole(value)
    return None if number is None else Meant({"yield_ms": max(number, 1)})


def _output_bytes(least: int, most: int) -> Habit:
    def habit(value: Any, given: Given) -> Meant | None:
        tokens = _whole(value)
        return None if tokens is None else Meant({"max_output_bytes": min(max(tokens * _TOKEN_BYTES, least), most)})

    return habit


def _output_mode(value: Any, given: Given) -> Meant | None:
    modes = {"content": {}, "files_with_matches": {"files_only": True}, "count": {"count": True}}
    return Meant(modes[value]) if isinstance(value, str) and value in modes else None


def _match_limit(most: int) -> Habit:
    """0 is no limit."""

    def habit(value: Any, given: Given) -> Meant | None:
        number = _whole(value)
        return None if number is None or number < 0 else Meant({"max_matches": min(number or most, most)})

    return habit


def _globs(value: Any, given: Given) -> Meant | None:
    """Several globs may stand in one argument, with white space between them."""
    parts = value.split() if isinstance(value, str) else []
    several = len(parts) > 1 and all("*" in part for part in parts)
    return Meant({"glob": f"{{{','.join(parts)}}}" if several else value})


def _patch(value: Any, given: Given) -> Meant | None:
    """The text of a patch; a list of operations keeps its name, which is an alias."""
    return Meant({"patch": value}) if isinstance(value, str) and is_patch(value) else None


def is_patch(text: str) -> bool:
    """Whether a text is a patch: V4A, in a here-document or not, or a unified diff."""
    return any(line.startswith(PATCH_STARTS) for line in text.lstrip().split("\n", 2)[:2])


_LABELS: Mapping[str, Habit] = dict.fromkeys(("description", "explanation", "justification", "instruction"), _drop)
_LINES: Mapping[str, Habit] = {"offset": _first_line, "limit": _line_count, "view_range": _line_range, **_LABELS}
_COMMANDS: Mapping[str, Habit] = {
    "command": _command,
    "cmd": _command,
    "dir_path": _as("cwd"),
    "run_in_background": _in_background,
    "is_background": _in_background,
    "yield_time_ms": _yield_ms,
    "login": _drop,
    "tty": _aside("tty was left aside: shell_start_session with pty has a terminal"),
    "shell": _aside("shell was left aside: name it in the command"),
    # Here is no sandbox to leave; what may run is for the owner to say.
    **dict.fromkeys(
        ("sandbox_permissions", "with_escalated_permissions", "prefix_rule", "dangerouslyDisableSandbox"), _drop
    ),
    **_LABELS,
}
_MATCHES: Mapping[str, Habit] = {
    "output_mode": _output_mode,
    "-A": _as("after"),
    "-B": _as("before"),
    "-C": _as("context"),
    "-n": _drop,
    "-o": _aside("-o was left aside: whole lines are shown"),
    "glob": _globs,
    "include": _globs,
    "offset": _as("skip"),
    **_LABELS,
}
_SEARCHES = ("fs_grep", "fs_search")
HABITS: Mapping[str, Mapping[str, Habit]] = {
    "fs_read": _LINES,
    "read": _LINES,
    "shell_exec": {
        **_COMMANDS,
        "timeout": _timeout,
        "timeout_ms": _milliseconds,
        "max_output_tokens": _output_bytes(256, 1024 * 1024),
    },
    "bash": {
        **_COMMANDS,
        "timeout": _timeout_ms,
        "timeout_seconds": _as_milliseconds,
        "max_output_tokens": _output_bytes(1024, 10 * 1024 * 1024),
    },
    "fs_grep": {
        **_MATCHES,
        "-i": _as("ignore_case"),
        "case_sensitive": _as_opposite("ignore_case"),
        "head_limit": _match_limit(_MOST_MATCHES),
    },
    "grep": {
        **_MATCHES,
        **dict.fromkeys(("-i", "ignore_case", "case_insensitive"), _as_opposite("case_sensitive")),
        "head_limit": _match_limit(5_000),
    },
    "fs_search": {"respect_git_ignore": _as_opposite("ignored"), **_LABELS},
    "fs_patch": {"patch": _patch, "input": _patch, "diff": _patch, **_LABELS},
    "fs_write": _LABELS,
}
