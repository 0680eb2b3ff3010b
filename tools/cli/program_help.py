"""Finds a program, and asks it for its `--help`, whose beginning is the description that a model reads.

Each program is asked once, and again when its file has changed. The answers are kept in the state folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.files import disk

if TYPE_CHECKING:
    from tools.cli.wrap import Wrap

# Every client pays for the description with each message, so it is short. `--help` itself is one call away.
_MOST_CHARS = 400
_MOST_BYTES = 64 * 1024
_MOST_FILE_BYTES = 4 * 1024 * 1024
_TIMEOUT_S = 5.0
# `-C <path>`, `--repo=REPO`, `-H, --host list   …`: the short form if there is one, the option, and its value. The
# words are the types of Go programs, and `''` is how kubectl shows a value.
_VALUE_OPTION = re.compile(
    r"(?<![\w-])(?:(-\w), ?)?(--?[A-Za-z][\w-]*)(?:=''|=\"\"|[ =]"
    r"(?:<[^<>\n]+>|[A-Z][A-Z0-9_-]+\b|\{[^{}\n]+\}|\[[^\[\]\n]+\|[^\[\]\n]+\]"
    r"|(?:bytes|duration|file|float(?:32|64)?|u?int(?:8|16|32|64)?|ip|list|path|strings?|stringArray|stringToString)"
    r"(?=  )))"
)


class ProgramHelp:
    """The help of wrapped programs, by the name of the command. `file` None: nothing is kept."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._known: dict[str, dict[str, Any]] = _load(file) if file is not None else {}

    def of(self, wrap: Wrap) -> str:
        """The description of a wrapped program; empty while its help is not known."""
        text = self._known.get(wrap.command, {}).get("text")
        return f"Run a {wrap.command} command. Returns stdout, stderr, and exit code. Its help:\n{text}" if text else ""

    def learn(self, wraps: Iterable[Wrap]) -> bool:
        """Ask the programs whose help is not known yet. It takes seconds. True if there is something new."""
        is_new = False
        for wrap in wraps:
            if wrap.description:
                continue
            program = find_program(wrap.command, wrap.env)
            stamp = None if program is None else _stamp(Path(program))
            if program is None or stamp is None or self._known.get(wrap.command, {}).get("stamp") == stamp:
                continue
            self._known[wrap.command] = {"stamp": stamp, "text": _shorten(_ask(program, wrap.env))}
            is_new = True
        if is_new and self._file is not None:
            with suppress(OSError):
                disk.replace_file(self._file, json.dumps(self._known).encode(), sync=False)
        return is_new


def find_program(command: str, environment: Mapping[str, str], folder: Path | None = None) -> str | None:
    """The absolute path of a program; None if there is none.

    A name is looked for on the PATH of `environment`, or else on ours. A relative path counts from `folder`, or else
    from the working directory, wherever the program is started.
    """
    # A Path would make `bn`, a name, of `./bn`.
    expanded = os.path.expanduser(command)  # noqa: PTH111
    if os.sep in expanded and folder is not None:
        expanded = str(folder / expanded)
    found = shutil.which(expanded, path=environment.get("PATH"))
    return None if found is None else str(Path(found).absolute())


def find_value_options(command: str, environment: Mapping[str, str]) -> list[str]:
    """The global options of a program that take a value, as far as its help shows them. It may take seconds."""
    program = find_program(command, environment)
    text = "" if program is None else _ask(program, environment)
    return list(dict.fromkeys(name for found in _VALUE_OPTION.findall(text) for name in found if name))


def _ask(program: str, environment: Mapping[str, str]) -> str:
    """The output of `--help`, as far as it comes within a few seconds."""
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                [program, "--help"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PAGER": "cat", "TERM": "dumb", "NO_COLOR": "1", **environment},
                start_new_session=True,
            )
        except OSError:
            return ""
        try:
            process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return ""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        return output.read(_MOST_BYTES).decode("utf-8", "replace")


def _shorten(text: str) -> str:
    """The first lines that fit, without empty ones and without control characters."""
    kept: list[str] = []
    room = _MOST_CHARS
    for line in text.splitlines():
        shown = "".join(character if character.isprintable() else " " for character in line).rstrip()
        room -= len(shown) + 1
        if room < 0:
            break
        if shown:
            kept.append(shown)
    return "\n".join(kept)


def _stamp(program: Path) -> str | None:
    try:
        status = program.stat()
    except OSError:
        return None
    return f"{program} {status.st_mtime_ns} {status.st_size}"


def _load(file: Path) -> dict[str, dict[str, Any]]:
    try:
        known = json.loads(disk.read_small_file(file, _MOST_FILE_BYTES))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) and all(isinstance(entry, dict) for entry in known.values()) else {}
