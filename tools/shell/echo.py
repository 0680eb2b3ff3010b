"""The echo of a terminal: what was typed comes back as output before the program has said anything."""

from __future__ import annotations

import re

# Colours, cursor movements and settings of a terminal, which a line editor prints around an echo.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_=>])")
_UNSEEN = re.compile(r"[\s\x07\x08]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LINE_END = re.compile(r"\r\n|\r|\n")
# An echo is longer than what was typed: line ends, control characters as ^C, escapes of a line editor.
_MOST_ESCAPES_BYTES = 4_096
_MOST_BYTES_A_CHARACTER = 8


def longest_echo_bytes(typed: str) -> int:
    """How much output must be looked at to tell an echo of `typed` from an answer."""
    return len(typed) * _MOST_BYTES_A_CHARACTER + _MOST_ESCAPES_BYTES


def is_only_echo(output: str, typed: str) -> bool:
    """Whether `output` is the echo of `typed`, or the beginning of it, and nothing besides."""
    plain = _ESCAPES.sub("", output)
    if plain.count("\n") > len(_LINE_END.findall(typed)):
        return False
    expected = _CONTROL.sub(_caret, _UNSEEN.sub("", typed))
    return expected.startswith(_UNSEEN.sub("", plain))


def _caret(control: re.Match[str]) -> str:
    """A control character as a terminal shows it: ^C."""
    return f"^{chr(ord(control[0]) ^ 0x40)}"
