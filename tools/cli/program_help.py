"""Finds a program, and learns from its `--help`: the description that a model reads, and which options take a value."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

# Every client pays for the description with each message, so it is short. `--help` itself is one call away.
_MOST_CHARS = 400
_MOST_BYTES = 64 * 1024
_TIMEOUT_S = 5.0
# `-C <path>`, `--repo=REPO`, `-H, --host list   …`: the short form if there is one, the option, and its value. The
# words are the types of Go programs, and `''` is how kubectl shows a value.
_VALUE_OPTION = re.compile(
    r"(?<![\w-])(?:(-\w), ?)?(--?[A-Za-z][\w-]*)(?:=''|=\"\"|[ =]"
    r"(?:<[^<>\n]+>|[A-Z][A-Z0-9_-]+\b|\{[^{}\n]+\}|\[[^\[\]\n]+\|[^\[\]\n]+\]"
    r"|(?:bytes|duration|file|float(?:32|64)?|u?int(?:8|16|32|64)?|ip|list|path|strings?|stringArray|stringToString)"
    r"(?=  )))"
)


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


def ask_help(command: str, environment: Mapping[str, str]) -> str:
    """The output of `--help`, if the program ends within a few seconds. Only where its owner asks for that.

    A program that ignores its arguments does its work.
    """
    program = find_program(command, environment)
    if program is None:
        return ""
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


def value_options(text: str) -> list[str]:
    """The global options that take a value, as far as a help text shows them."""
    return list(dict.fromkeys(name for found in _VALUE_OPTION.findall(text) for name in found if name))


def first_lines(text: str) -> str:
    """The first lines of a help text that fit, without empty ones and without control characters."""
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
