"""Commands that were spelled otherwise before. They go on working, and say how they are spelled now."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence

from tools.kit.spelling import did_you_mean

_RENAMED = {
    ("unmount",): ("mount", "remove"),
    ("unwrap",): ("wrap", "remove"),
    ("profile", "delete"): ("profile", "remove"),
    ("artifacts", "rm"): ("artifacts", "remove"),
}
_ACTIONS = {
    "mount": ["add", "list", "remove", "restart", "import"],
    "wrap": ["add", "list", "remove"],
}


def current_spelling(words: Sequence[str], *, is_followed: bool) -> tuple[list[str], str]:
    """The words as they are spelled now, and a sentence that says so; it is empty where they are spelled so already.

    `is_followed`: a command line stood behind `--`.
    """
    for old, new in _RENAMED.items():
        if tuple(words[: len(old)]) == old:
            return [*new, *words[len(old) :]], _note(" ".join(old), " ".join(new))
    first, rest = words[0], list(words[1:])
    if first == "connect" and "--remove" in rest:
        rest.remove("--remove")
        return ["connect", "remove", *rest], _note("connect --remove", "connect remove")
    if [first, *rest[:1]] == ["token", "create"] and any(word.partition("=")[0] == "--name" for word in rest):
        return _token_create(rest[1:]), _note("token create --name NAME", "token create NAME")
    if first not in _ACTIONS or (rest and rest[0] in (*_ACTIONS[first], "-h", "--help")):
        return [first, *rest], ""
    if len(rest) == 1 and not is_followed and shutil.which(rest[0]) is None and did_you_mean(rest[0], _ACTIONS[first]):
        # A slip in an action, and no name: the command line says which one may be meant.
        return [first, *rest], ""
    if first == "mount":
        return _mount(rest, is_followed=is_followed)
    return ([first, "add", *rest], _note("wrap", "wrap add")) if rest else ([first], "")


def _mount(rest: list[str], *, is_followed: bool) -> tuple[list[str], str]:
    """`mount` had flags where it has actions now."""
    flags = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    flags.add_argument("--restart")
    flags.add_argument("--from", dest="source")
    old, others = flags.parse_known_args(rest)
    if old.restart is not None:
        return ["mount", "restart", old.restart, *others], _note("mount --restart", "mount restart")
    if old.source is not None:
        return ["mount", "import", old.source, *others], _note("mount --from", "mount import")
    places = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    places.add_argument("--json", action="store_true")
    for flag in ("--tools-file", "--config", "--state-dir"):
        places.add_argument(flag)
    _, named = places.parse_known_args(others)
    if not named and not is_followed:
        return ["mount", "list", *rest], _note("mount", "mount list")
    return ["mount", "add", *rest], _note("mount NAME", "mount add NAME")


def _token_create(rest: list[str]) -> list[str]:
    """The name was a flag."""
    flags = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    flags.add_argument("--name", required=True)
    old, others = flags.parse_known_args(rest)
    return ["token", "create", old.name, *others]


def _note(old: str, new: str) -> str:
    return f"`mcp-agent {old}` is now `mcp-agent {new}`"
