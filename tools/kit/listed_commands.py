"""Whether every part of a command line is on a list of commands that neither change anything nor run anything else.

A command line is read as `sh` and `bash` read it, and whatever the reading cannot be sure of is not on the list:
redirections, substitutions, variables, brace expansion, background jobs, subshells, several lines. Of the programs that
are known here, options that write or that run another program are not on the list either. Any other entry of a list
stands for exactly its words.

It stops mistakes, not attackers: a program of that name may have been put in place of the real one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

_SEPARATORS = ("&&", "||", "|", ";")
_REFUSED = frozenset("$`<>(){}&#!\n\r\0")
# A word that begins so, or with a dash, may become an option, if there is a file of such a name.
_GLOBS = ("*", "?", "[")
# No word of a command has it.
_MAY_BE_OPTION = "\0"
_PRINT_LINES = re.compile(r"\d+(,(\d+|\$))?p(;\d+(,(\d+|\$))?p)*")


def plain_parts(command: str) -> list[list[str]] | None:
    """The words of each program in a command line; None for one that is more than words and separators.

    A word that the shell may replace by a name of a file that looks like an option begins with `_MAY_BE_OPTION`.
    """
    parts: list[list[str]] = [[]]
    word: str | None = None
    has_glob = False

    def end_word() -> None:
        nonlocal word, has_glob
        if word is not None:
            may_be_option = has_glob and word.startswith((*_GLOBS, "-"))
            parts[-1].append(f"{_MAY_BE_OPTION}{word}" if may_be_option else word)
        word, has_glob = None, False

    at = 0
    while at < len(command):
        letter = command[at]
        if letter in " \t":
            end_word()
        elif separator := next((each for each in _SEPARATORS if command.startswith(each, at)), ""):
            end_word()
            if not parts[-1]:
                return None
            parts.append([])
            at += len(separator) - 1
        elif letter in _REFUSED or ord(letter) < 32:
            return None
        elif letter in "'\"":
            text, at = _quoted(command, at)
            if text is None:
                return None
            word = (word or "") + text
        elif letter == "\\":
            at += 1
            if at >= len(command) or ord(command[at]) < 32:
                return None
            word = (word or "") + command[at]
        else:
            has_glob |= letter in _GLOBS
            word = (word or "") + letter
        at += 1
    end_word()
    if not parts[-1] and len(parts) > 1 and command.rstrip(" \t").endswith(";"):
        parts.pop()
    return parts if all(parts) else None


def _quoted(command: str, start: int) -> tuple[str | None, int]:
    """The text of a quoted part and the place of its last quote; None for one that is open, or that is not plain."""
    quote, text, at = command[start], "", start + 1
    while at < len(command):
        letter = command[at]
        if letter == quote:
            return text, at
        if quote == '"' and letter in "$`":
            return None, at
        if ord(letter) < 32 and letter != "\t":
            return None, at
        if quote == '"' and letter == "\\" and command[at + 1 : at + 2] in ('"', "\\", "$", "`"):
            at += 1
            letter = command[at]
        text += letter
        at += 1
    return None, at


class ListedCommands:
    """A list of commands: the names of programs that are known here (`git log` is one), and exact command lines."""

    def __init__(self, entries: Iterable[str]) -> None:
        self.entries = tuple(entries)
        self._known: dict[tuple[str, ...], Callable[[Sequence[str]], bool]] = {}
        self._exact: set[tuple[str, ...]] = set()
        for entry in self.entries:
            words = tuple(entry.split())
            check = HARMLESS.get(entry)
            if check is not None:
                self._known[words] = check
            elif (parts := plain_parts(entry)) is not None and len(parts) == 1:
                self._exact.add(tuple(parts[0]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListedCommands) and other.entries == self.entries

    def __hash__(self) -> int:
        return hash(self.entries)

    def has(self, command: str) -> bool:
        """Whether every program in the command line is on the list."""
        parts = plain_parts(command)
        return parts is not None and all(self._has_part(part) for part in parts)

    def _has_part(self, words: Sequence[str]) -> bool:
        if tuple(words) in self._exact:
            return True
        for length in (1, 2):
            check = self._known.get(tuple(words[:length]))
            if check is not None and check(words[length:]):
                return True
        return False


def is_entry(text: str) -> bool:
    """Whether a text can stand in a list: a known program, or one command in plain words."""
    parts = plain_parts(text)
    return text in HARMLESS or (parts is not None and len(parts) == 1)


def _any(_: Sequence[str]) -> bool:
    return True


def _without(*options: str) -> Callable[[Sequence[str]], bool]:
    """No argument is one of these options: a long one may be shortened, and a letter may stand among others."""
    long = [each for each in options if each.startswith("--")]
    letters = {each[1] for each in options if not each.startswith("--") and len(each) == 2}

    def check(arguments: Sequence[str]) -> bool:
        for each in arguments:
            if each.startswith(_MAY_BE_OPTION):
                # It may become the name of a file that looks like an option.
                return False
            if each.startswith("--"):
                name = each.partition("=")[0]
                if len(name) > 2 and any(option.startswith(name) for option in long):
                    return False
            elif each.startswith("-") and letters & set(each[1:]):
                return False
        return True

    return check


def _without_words(*words: str) -> Callable[[Sequence[str]], bool]:
    """No argument begins with one of these: for programs whose options have one dash and several letters."""
    return lambda arguments: not any(each.startswith((*words, _MAY_BE_OPTION)) for each in arguments)


def _prints_lines(arguments: Sequence[str]) -> bool:
    """`sed -n` with a script that prints lines by their numbers."""
    rest = [each for each in arguments[2:] if each.startswith(("-", _MAY_BE_OPTION))]
    return arguments[:1] == ["-n"] and _PRINT_LINES.fullmatch("".join(arguments[1:2])) is not None and not rest


def _has_one_file(arguments: Sequence[str]) -> bool:
    """A second file of `uniq` is written; an option may have a value that looks like a file."""
    return not any(each.startswith(_MAY_BE_OPTION) for each in arguments) and (
        len([each for each in arguments if not each.startswith("-")]) <= 1
    )


_GIT = _without("--output", "--ext-diff", "--textconv", "--open-files-in-pager", "--upload-pack", "--exec", "-O")

# What is known of programs, and whether some arguments of theirs neither write nor run anything.
HARMLESS: Mapping[str, Callable[[Sequence[str]], bool]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("ls", "pwd", "cd", "cat", "head", "tail", "wc", "echo", "true", "false", "stat", "du", "df"),
                *("whoami", "id", "uname", "uptime", "ps", "free", "printenv", "which", "basename", "dirname"),
                *("realpath", "readlink", "cut", "tr", "nl", "comm", "cmp", "md5sum", "sha256sum", "seq"),
                *("grep", "egrep", "fgrep", "jq"),
            ),
            _any,
        ),
        "date": _without("--set", "-s"),
        "diff": _without("--paginate", "-l"),
        "file": _without("--compile", "-C", "--no-sandbox", "-S", "-z", "-Z", "--uncompress", "--uncompress-noreport"),
        "find": _without_words("-exec", "-ok", "-delete", "-fprint", "-fls"),
        "rg": _without("--pre", "--hostname-bin", "--search-zip", "-z"),
        "sed": _prints_lines,
        "sort": _without("--output", "-o", "--compress-program", "--temporary-directory", "-T"),
        "tree": _without("-o", "--output", "-R"),
        "uniq": _has_one_file,
        **dict.fromkeys(
            (*("git status", "git log", "git diff", "git show", "git blame", "git ls-files", "git rev-parse"),), _GIT
        ),
    }
)
