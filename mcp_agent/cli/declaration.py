"""What a command of the command line is: its words, its flags, two examples, and the function that it leads to.

A command is declared beside its function, with `@command`. The first paragraph of the function's docstring is what
its help says. The function gets the parsed flags and answers with a `Reply`, or an exit code where it has printed its
JSON itself.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, NoReturn

from mcp_agent.process.printing import print_json
from mcp_agent.settings import DAEMON_SETTINGS, Setting
from registry.user_error import UsageError
from tools.kit.spelling import did_you_mean

PROGRAM = "mcp-agent"
# Which settings a command uses.
PLACES = ("tools_file", "state_dir")
TOKENS = (*PLACES, "token_file")
COMMON = (*PLACES, "profile", "log_level")
EVERY = tuple(setting.name for setting in DAEMON_SETTINGS)
# Settings that may be given several times, each with what it is called in the help.
_REPEATED = {"allow_host": "NAME", "allow_origin": "URL", "label": "KEY=VALUE"}
_VALUES = {"port": "PORT", "fleet": "URL", "box": "NAME", "creds": "FILE", "public_url": "URL", **_REPEATED}

# What the completion of a shell offers for a value.
Completed = Literal["tools", "profiles", "clients", "sessions", "tokens", "mounts", "wraps"]


class CommandReply(NamedTuple):
    """What a command found or did, for `--json`; people have read it already. `code` is the exit code."""

    facts: Any
    code: int = 0


class Argument(NamedTuple):
    """A flag or a value of a command, as argparse takes it."""

    names: tuple[str, ...]
    details: dict[str, Any]
    completed: Completed | None = None

    @property
    def value(self) -> str:
        """What its value is called; empty for a flag without one."""
        if self.details.get("action") in ("store_true", "store_const"):
            return ""
        choices = self.details.get("choices")
        last = self.names[-1].lstrip("-").replace("-", "_").upper()
        return str(self.details.get("metavar") or ("|".join(choices) if choices else last))


def argument(*names: str, completed: Completed | None = None, **details: Any) -> Argument:
    """A flag (`--name`) or a value of a command; `details` are those of argparse."""
    return Argument(names, details, completed)


STOP_SESSIONS = argument("--stop-sessions", action="store_true", help="end every running shell session, too")
DRY_RUN = argument("--dry-run", action="store_true", help="show what would change, and change nothing")
YES = argument("-y", "--yes", action="store_true", help="do not ask")
_JSON = argument("--json", action="store_true", help="print it as JSON")
GATEWAY = argument(
    "--gateway", action="store_true", help="of the gateway of a fleet on this machine, not of the daemon here"
)
# Commands about what a gateway has, too: its process, its policy, its tokens, what it did.
OF_GATEWAYS = tuple("status stop restart logs open token doctor tools enable disable profile check audit".split())


class Command(NamedTuple):
    """One command, such as `token create`."""

    words: tuple[str, ...]
    function: Callable[[argparse.Namespace], CommandReply | int]
    arguments: tuple[Argument, ...]
    settings: tuple[Setting, ...]
    examples: tuple[str, ...]
    usage: str | None
    streams: bool
    defaults: dict[str, Any]

    @property
    def prog(self) -> str:
        return " ".join((PROGRAM, *self.words))

    @property
    def description(self) -> str:
        paragraph = (self.function.__doc__ or "").partition("\n\n")[0]
        return " ".join(paragraph.split())

    @property
    def summary(self) -> str:
        """The description as a line of a list."""
        first = self.description.partition(". ")[0].rstrip(".")
        return first[:1].lower() + first[1:] if first[1:2].islower() else first

    def run(self, options: argparse.Namespace) -> int:
        """Run it, and return its exit code. With `--json` its facts are printed in the place of people's text."""
        if getattr(options, "gateway", False):
            from mcp_agent.config import gateway_places

            for name, place in gateway_places().items():
                setattr(options, name, getattr(options, name, None) or place)
        is_silent = options.json and not self.streams
        with contextlib.redirect_stdout(io.StringIO()) if is_silent else contextlib.nullcontext():
            reply = self.function(options)
        if isinstance(reply, int):
            return reply
        if is_silent:
            print_json(reply.facts)
        return reply.code

    def parser(self) -> Parser:
        epilog = "\n".join(["examples:", *(f"  {example}" for example in self.examples)])
        parser = Parser(prog=self.prog, usage=self.usage, description=self.description, epilog=epilog)
        shared = (GATEWAY, _JSON) if self.words[0] in OF_GATEWAYS else (_JSON,)
        for each in (*self.arguments, *shared):
            parser.add_argument(*each.names, **each.details)
        # A group of their own: the help then shows the command's own flags before the shared ones.
        group = parser.add_argument_group("settings")
        for setting in self.settings:
            details: dict[str, Any] = {"action": "append" if setting.name in _REPEATED else "store"}
            details["metavar"] = _VALUES.get(setting.name, setting.name.upper())
            group.add_argument(setting.flag, **details, help=f"{setting.help} (default: {setting.shown_default})")
            if setting.old_name:
                group.add_argument(f"--{setting.old_name}", dest=setting.name, help=argparse.SUPPRESS)
        parser.set_defaults(**self.defaults)
        return parser


class Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one sentence, like every other error."""

    def __init__(self, *, description: str, **details: Any) -> None:
        width = shutil.get_terminal_size().columns - 2
        super().__init__(
            **details,
            description=textwrap.fill(description, width),
            # argparse makes one for each argument, and each would ask the terminal how wide it is.
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=width),
        )

    def read(self, words: Sequence[str], namespace: argparse.Namespace) -> None:
        """Fill `namespace` from the words behind the command. Raises UsageError."""
        flags = [word.partition("=")[0] for word in words if word.startswith("--") and " " not in word]
        known = [name for action in self._actions for name in action.option_strings]
        for flag in flags:
            if not any(name.startswith(flag) for name in known):
                raise UsageError(f"there is no flag {flag} in {self.prog}{did_you_mean(flag, known) or self._where}")
        _, left = self.parse_known_args(words, namespace)
        if left:
            raise UsageError(f"{self.prog} does not take {left[0]!r}{self._where}")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}{self._where}")

    @property
    def _where(self) -> str:
        return f"; {self.prog} --help shows how to use it"


def command(
    words: str,
    *arguments: Argument,
    settings: Sequence[str] = PLACES,
    examples: tuple[str, str],
    usage: str | None = None,
    streams: bool = False,
    **defaults: Any,
) -> Callable[[Callable[[argparse.Namespace], CommandReply | int]], Command]:
    """Declare the command that a function carries out. `settings` are those that it has flags for.

    One that `streams` prints its JSON itself, as it comes.
    """
    used = tuple(setting for setting in DAEMON_SETTINGS if setting.name in settings)

    def declare(function: Callable[[argparse.Namespace], CommandReply | int]) -> Command:
        return Command(tuple(words.split()), function, arguments, used, examples, usage, streams, defaults)

    return declare


def is_confirmed(question: str, *, as_json: bool, is_final: bool = False) -> bool:
    """Whether the person at the terminal says yes; the end of input is a no. Asked where it is seen with `--json`.

    To what cannot be taken back (`is_final`), an empty line is a no, too.
    """
    print(
        f"{question} {'[y/N]' if is_final else '[Y/n]'} ",
        end="",
        flush=True,
        file=sys.stderr if as_json else sys.stdout,
    )
    answer = sys.stdin.readline()
    return bool(answer) and answer.strip().lower() in ("y", "yes", *(() if is_final else ("",)))


def ask_which(heading: str, rows: Mapping[str, str], *, as_json: bool) -> list[str]:
    """The names of `rows` that the person at the terminal leaves ticked; none where the answer is no, or there is none.

    Each row is a name with what is to be said of it, and begins ticked. A number changes the tick of its row.
    """
    screen = sys.stderr if as_json else sys.stdout
    names = list(rows)
    ticked = dict.fromkeys(names, True)
    width = max(map(len, names))
    while True:
        print(heading, file=screen)
        for number, name in enumerate(names, 1):
            print(f"  {number:2} [{'x' if ticked[name] else ' '}] {name:{width}}  {rows[name]}", file=screen)
        print("Go on? Numbers change ticks. [Y/n/1 2 …] ", end="", flush=True, file=screen)
        answer = sys.stdin.readline()
        words = answer.replace(",", " ").lower().split()
        if not answer or words[:1] in (["n"], ["no"]):
            return []
        if not words or words[0] in ("y", "yes"):
            return [name for name in names if ticked[name]]
        for word in words:
            if word.isdecimal() and 1 <= int(word) <= len(names):
                ticked[names[int(word) - 1]] ^= True
            else:
                print(f"there is no number {word!r}", file=screen)
