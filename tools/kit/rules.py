"""Rules of the owner on what is off limits: paths by globs, commands by regular expressions.

They stop mistakes, not attackers: who may run a command can reach anything that the daemon's user can reach. A rule
is compiled when tools.json is read and tried under a time limit, because a pattern can be written that takes hours.
What cannot be decided in that time is refused.

Globs are those of .gitignore. One that begins with `/` or `~` is about that place; any other is about names at every
depth. A rule with several globs goes by the last that fits, so that `!` makes an exception. What is below a denied
folder is denied with it.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tools.kit.errors import Denied, InvalidPattern
from tools.kit.records import record

if TYPE_CHECKING:
    from regex import Pattern

TIME_LIMIT_S = 0.1
_SHOWN_CHARS = 120
_MOST_PASSED = 1_000
# How pathspec writes that a name may stand anywhere.
_AT_ANY_DEPTH = "^(?:.+/)?"
_MAGIC = re.compile(r"[*?\[\\]")
_QUOTING = re.compile(r"['\"\\]")
# Where the file system does not know upper from lower case, neither may a rule.
_IGNORES_CASE = sys.platform in ("darwin", "win32")


@record
class Rule:
    """One rule as its owner wrote it; `where` says in which file, and at which place of it."""

    id: str
    patterns: tuple[str, ...]
    reason: str
    where: str = ""

    def refusal(self, what: str, matched: str) -> Denied:
        return Denied(
            f"{what} is denied by the rule {self.id}: {self.reason}",
            hint=f"{_quote(matched)} is what the rule is about; its owner can change it in {self.where}. "
            "Do the work without it, or ask them.",
            rule=self.id,
        )


class Match(NamedTuple):
    """A rule that fits, and what it fits: a glob as it was written, or a part of a command."""

    rule: Rule
    matched: str


class _Glob(NamedTuple):
    text: str
    denies: bool
    pattern: Pattern[str]


class _Rules:
    """Rules of one kind. They are the same if they were written the same."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.rules == self.rules

    def __hash__(self) -> int:
        return hash(self.rules)


class PathRules(_Rules):
    """Rules about paths. Raises InvalidPattern for a glob that cannot be read."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        super().__init__(rules)
        self._globs = tuple((rule, tuple(_globs(rule))) for rule in rules)
        denying = [glob.pattern.pattern for _, each in self._globs for glob in each if glob.denies]
        # Almost no path is denied: one look at all globs together says so.
        self._any = _compile_glob(_union(denying))
        # Paths that were asked about lately and are not denied: a call asks about its own more than once.
        self._passed: set[str] = set()

    def match(self, path: str) -> Match | None:
        """The first rule that denies an absolute path. Raises Denied if that cannot be told in time."""
        if path in self._passed:
            return None
        below_root = path.lstrip("/")
        try:
            if self._any.match(below_root, timeout=TIME_LIMIT_S) is None:
                if len(self._passed) >= _MOST_PASSED:
                    self._passed.clear()
                self._passed.add(path)
                return None
            for rule, globs in self._globs:
                fitting = [glob for glob in globs if glob.pattern.match(below_root, timeout=TIME_LIMIT_S)]
                if fitting and fitting[-1].denies:
                    return Match(rule, fitting[-1].text)
        except TimeoutError:
            raise _time_limit_denial("path") from None
        return None


class CommandRules(_Rules):
    """Rules about command lines. Raises InvalidPattern for an expression that cannot be read."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        super().__init__(rules)
        self._patterns = tuple((rule, _compile_expression(pattern)) for rule in rules for pattern in rule.patterns)

    def match(self, command: str) -> Match | None:
        """The first rule that a command fits, as it stands or without its quotes. Raises Denied if out of time."""
        deadline = time.monotonic() + TIME_LIMIT_S
        plain = strip_quotes(command)
        for text in (command,) if plain == command else (command, plain):
            for rule, pattern in self._patterns:
                left_s = deadline - time.monotonic()
                try:
                    if left_s <= 0:
                        raise TimeoutError
                    found = pattern.search(text, timeout=left_s)
                except TimeoutError:
                    raise _time_limit_denial("command", rule) from None
                if found is not None:
                    return Match(rule, found[0])
        return None

    def check(self, command: str) -> None:
        """Raise Denied if a rule is against a command, or against what is typed into one that runs."""
        found = self.match(command)
        if found is not None:
            raise found.rule.refusal("the command", found.matched)


class Deny(NamedTuple):
    """What a profile denies, or several profiles together."""

    paths: PathRules | None = None
    commands: CommandRules | None = None


NOTHING = Deny()


def merge(denials: Sequence[Deny]) -> Deny:
    """The rules of all of them, each once."""
    several = [deny for deny in denials if deny != NOTHING]
    if len(several) < 2:
        return several[0] if several else NOTHING
    paths = tuple(dict.fromkeys(rule for deny in several if deny.paths for rule in deny.paths.rules))
    commands = tuple(dict.fromkeys(rule for deny in several if deny.commands for rule in deny.commands.rules))
    return Deny(PathRules(paths) if paths else None, CommandRules(commands) if commands else None)


def strip_quotes(command: str) -> str:
    """A command without quotes and backslashes, its continued lines joined, so that `r\\m "-rf"` reads `rm -rf`."""
    return _QUOTING.sub("", command.replace("\\\n", ""))


def _globs(rule: Rule) -> Iterator[_Glob]:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    if all(text.startswith("!") for text in rule.patterns):
        raise InvalidPattern("there is nothing but exceptions in it")
    for text in rule.patterns:
        denies = not text.startswith("!")
        for glob in _anchor(text.removeprefix("!").rstrip("/")):
            try:
                source = GitIgnoreSpecPattern(glob).regex
            except ValueError as error:
                raise InvalidPattern(f"the glob {text!r} cannot be read: {str(error).lower()}") from None
            if source is None:
                raise InvalidPattern(f"the glob {text!r} fits no path")
            yield _Glob(text, denies, _compile_glob(source.pattern))


def _anchor(glob: str) -> list[str]:
    """The glob as it counts from the root of the file system: by its name, and by where that leads today."""
    if not glob.startswith(("/", "~")):
        return [glob if glob.startswith("**/") else f"**/{glob}"] if glob else [""]
    user, *parts = glob.split("/")
    home = os.path.expanduser(user)  # noqa: PTH111 - Path.expanduser raises where there is no such user
    if home.startswith("~"):
        raise InvalidPattern(f"the glob {glob!r} begins with a user that is not known here")
    plain = next((index for index, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    named = "/".join([home.rstrip("/"), *parts[:plain]])
    places = dict.fromkeys((named, os.path.realpath(named or "/").rstrip("/")))
    return ["/".join([_MAGIC.sub(r"\\\g<0>", place), *parts[plain:]]) for place in places]


def _union(sources: Sequence[str]) -> str:
    """One expression for all of these; how they begin, most of them alike, is tried once."""
    deep = [source.removeprefix(_AT_ANY_DEPTH) for source in sources if source.startswith(_AT_ANY_DEPTH)]
    placed = [source for source in sources if not source.startswith(_AT_ANY_DEPTH)]
    return "|".join([*([f"{_AT_ANY_DEPTH}(?:{'|'.join(deep)})"] if deep else []), *placed])


def _compile_glob(source: str) -> Pattern[str]:
    import regex

    # A name may have a line end in it, which a dot must not stop at.
    return regex.compile(source, regex.DOTALL | (regex.IGNORECASE if _IGNORES_CASE else 0))


def _compile_expression(pattern: str) -> Pattern[str]:
    import regex

    try:
        return regex.compile(pattern, regex.MULTILINE)
    except regex.error as error:
        raise InvalidPattern(f"no regular expression: {error}") from None


def _time_limit_denial(what: str, rule: Rule | None = None) -> Denied:
    named = "the deny rules" if rule is None else f"the deny rule {rule.id}"
    where = "" if rule is None else f" in {rule.where}"
    return Denied(
        f"{named} took longer than {TIME_LIMIT_S * 1000:g} ms over this {what}, so it is refused",
        hint=f"a shorter {what} may pass; the owner can write a simpler pattern{where}",
        rule=None if rule is None else rule.id,
    )


def _quote(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…")
