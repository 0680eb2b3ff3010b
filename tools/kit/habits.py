"""Arguments that models write from habit, for the tools of the client they were trained on, and what they are here.

One table: tool, foreign argument, what becomes of it. It is asked only on the MCP wires of the daemon, for a call that
does not fit its schema. Mere other names of an argument are its `aliases`; here is what has another unit or shape, and
what only a hidden argument can say. A note says where something of it is lost.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tools.kit.params import INPUT_ALIASES, PATH_ALIASES

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
_SHELLS = ("sh", "bash", "zsh", "dash", "ash", "ksh", "fish")
_RUNS_A_LINE = ("-c", "-lc", "-ic", "-ilc", "-lic", "-cl")
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
    if tool in _SILENT and all(arguments.get(name) is None for name in _SILENT[tool].names):
        taken.update(_SILENT[tool].meant)
    return taken, notes


def _drop(value: Any, given: Given) -> Meant:
    """It is a label for a person, or asks for what the tool always does."""
    return _NOTHING


def _aside(why: str) -> Habit:
    """It asks for what the tool cannot do, unless it is false or says what is done anyway."""
    return lambda value, given: Meant({}, why) if value not in (False, "", "slice") else _NOTHING


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


def _command(own: str) -> Habit:
    """A command line, or a list of words, in the shell that it names; `own` is the one that the tool starts."""

    def habit(value: Any, given: Given) -> Meant | None:
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            if len(value) == 3 and _name(value[0]) in _SHELLS and value[1] in _RUNS_A_LINE:
                return _in_shell(value[0], value[2], own, is_login="l" in value[1])
            return Meant({"command": shlex.join(value)})
        if not isinstance(value, str):
            return None
        shell = given.get("shell")
        if not isinstance(shell, str) or not shell:
            return Meant({"command": value})
        return _in_shell(shell, value, own, is_login=given.get("login") not in (None, False, "false"))

    return habit


def _name(program: str) -> str:
    return program.rpartition("/")[2]


def _in_shell(shell: str, line: str, own: str, *, is_login: bool) -> Meant:
    """The command line as that shell reads it. What a shell of another machine is called may not be here."""
    if _name(shell) in (own, "sh"):
        return Meant({"command": line})
    found = shell if shutil.which(shell) else shutil.which(_name(shell))
    if found is None or _name(shell) not in _SHELLS:
        return Meant({"command": line}, f"shell {shell[:40]} was left aside: {own} runs the command")
    return Meant({"command": shlex.join([found, "-lc" if is_login else "-c", line])})


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


def _wait_ms(value: Any, given: Given) -> Meant | None:
    """How long to wait, where the tool of a client has its own word for it."""
    limit_s = _seconds(value)
    is_asked = given.get("block") not in (False, "false")
    return None if limit_s is None else Meant({"wait_ms": round(limit_s * 1000)} if is_asked else {})


def _block(value: Any, given: Given) -> Meant | None:
    """Wait for the end, or only look."""
    if value in (True, "true"):
        return Meant({"wait_for": ["exit"]})
    return Meant({"wait_ms": 0}) if value in (False, "false") else None


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
    """The text of a patch, or the list of operations, which may be JSON."""
    is_text = isinstance(value, str) and not value.lstrip().startswith(("[", "{"))
    return Meant({"patch" if is_text else "operations": value})


def _patch_text(value: Any, given: Given) -> Meant | None:
    return Meant({"patch": value}) if isinstance(value, str) and is_patch(value) else None


def is_patch(text: str) -> bool:
    """Whether a text is a patch: V4A, in a here-document or not, or a unified diff."""
    return any(line.startswith(PATCH_STARTS) for line in text.lstrip().split("\n", 2)[:2])


_LABELS: Mapping[str, Habit] = dict.fromkeys(
    # `again` is for profiles that show nothing twice; elsewhere all is shown anyway.
    ("description", "explanation", "justification", "instruction", "again"),
    _drop,
)
_LINES: Mapping[str, Habit] = {
    "offset": _first_line,
    "limit": _line_count,
    "view_range": _line_range,
    "start_line_one_indexed": _first_line,
    "end_line_one_indexed_inclusive": _as("end_line"),
    "pages": _aside("pages was left aside: read by lines"),
    "mode": _aside("mode was left aside: the lines are shown as they are"),
    "indentation": _drop,
    # What is left out of a long file can be read from the line that the answer names.
    **dict.fromkeys(("allow_large", "should_read_entire_file"), _drop),
    **_LABELS,
}
_COMMANDS: Mapping[str, Habit] = {
    "dir_path": _as("cwd"),
    "run_in_background": _in_background,
    "is_background": _in_background,
    "yield_time_ms": _yield_ms,
    "login": _drop,
    "tty": _aside("tty was left aside: shell_start_session with pty has a terminal"),
    "shell": _drop,
    # Here is no sandbox to leave; what may run is for the owner to say.
    **dict.fromkeys(
        (
            *("sandbox_permissions", "additional_permissions", "with_escalated_permissions", "prefix_rule"),
            *("dangerouslyDisableSandbox", "requires_approval", "environment_id"),
        ),
        _drop,
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


class _Silence(NamedTuple):
    """What is meant where none of these arguments is there."""

    names: tuple[str, ...]
    meant: Given


_HERE = _Silence(PATH_ALIASES, {"base": "."})
_SILENT: Mapping[str, _Silence] = {
    "fs_grep": _HERE,
    "fs_search": _HERE,
    "shell_send_input": _Silence(("input", *INPUT_ALIASES), {"input": ""}),
}
HABITS: Mapping[str, Mapping[str, Habit]] = {
    "fs_read": _LINES,
    "read": _LINES,
    "shell_exec": {
        **_COMMANDS,
        **dict.fromkeys(("command", "cmd"), _command("sh")),
        "timeout": _timeout,
        "timeout_ms": _milliseconds,
        "max_output_tokens": _output_bytes(256, 1024 * 1024),
    },
    "bash": {
        **_COMMANDS,
        **dict.fromkeys(("command", "cmd"), _command("bash")),
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
    "shell_send_input": {
        "yield_time_ms": _as("wait_ms"),
        "max_output_tokens": _output_bytes(256, 1024 * 1024),
        **dict.fromkeys(("timeout", "timeout_ms"), _wait_ms),
        "block": _block,
        "filter": _aside("filter was left aside: until waits for a pattern"),
        **_LABELS,
    },
    "fs_search": {"respect_git_ignore": _as_opposite("ignored"), **_LABELS},
    "fs_patch": {"patch": _patch, **dict.fromkeys(("input", "diff", "operations"), _patch_text), **_LABELS},
    "fs_write": _LABELS,
}
