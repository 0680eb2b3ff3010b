"""Finds the subcommand in the arguments of a program: `push` in `git -C folder push`."""

from __future__ import annotations

from collections.abc import Sequence


def find_subcommand(args: Sequence[str], value_options: Sequence[str]) -> str | None:
    """The first argument that is neither an option nor the value of one; None if there is none.

    `value_options` are the options whose value is the argument behind them.
    """
    rest = iter(args)
    for argument in rest:
        if argument == "--":
            return next(rest, None)
        if not argument.startswith("-"):
            return argument
        if _takes_next(argument, value_options):
            next(rest, None)
    return None


def _takes_next(option: str, value_options: Sequence[str]) -> bool:
    """Whether the value of an option is the argument behind it: `-C`, or `-pC` for `-p -C`, but not `-Cfolder`."""
    if option in value_options or option.startswith("--"):
        return option in value_options
    letters = (index for index in range(1, len(option)) if f"-{option[index]}" in value_options)
    return next(letters, None) == len(option) - 1
