"""The parts of a command line: a parser that knows what it was made of, and commands with flags for their settings."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from mcp_agent.settings import DAEMON_SETTINGS, suggest
from registry.user_error import UserError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction["Parser"]

# Which settings a command uses.
PLACES = ("config", "state_dir")
TOKENS = (*PLACES, "token_file")
COMMON = (*PLACES, "profile", "log_level")
EVERY = tuple(setting.name for setting in DAEMON_SETTINGS)
# Settings that may be given several times, each with what it is called in the help.
_REPEATED = {"allow_host": "NAME", "allow_origin": "URL", "label": "KEY=VALUE", "fleet_trust": "[NAME=]KEY"}


class Described(NamedTuple):
    """An argument of a command: its names, the value that it takes, and its help."""

    names: tuple[str, ...]
    value: str
    help: str


class Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one sentence, like every other error, and knows what it was made of."""

    def __init__(self, made: list[Parser], **details: Any) -> None:
        """`made` is the list of all parsers of a command line, which this one is added to."""
        self.made = made
        self.described: list[Described] = []
        # The names of the settings that it has flags for.
        self.settings: tuple[str, ...] = ()
        super().__init__(**details, formatter_class=_help_formatter)
        made.append(self)

    def add_argument(self, *names: str, **details: Any) -> argparse.Action:
        action = super().add_argument(*names, **details)
        value = str(action.metavar or ("|".join(action.choices) if action.choices else action.dest.upper()))
        is_switch = action.nargs == 0
        self.described.append(Described(names, "" if is_switch else value, action.help or ""))
        return action

    def error(self, message: str) -> None:  # type: ignore[override]  # it does not return: it exits
        self.exit(2, f"mcp-agent: {message}; {self.prog} --help shows how to use it\n")


def _help_formatter(prog: str) -> argparse.HelpFormatter:
    # argparse makes one for each argument, and each would ask the terminal how wide it is.
    return argparse.HelpFormatter(prog, width=_help_width())


@cache
def _help_width() -> int:
    return shutil.get_terminal_size().columns - 2


def check_command(root: Parser, words: Sequence[str]) -> None:
    """Raise UserError for a command that there is not, with the one that may be meant. argparse would list them all."""
    prog = root.prog
    for word in words:
        known = [each.prog.rpartition(" ")[2] for each in root.made if each.prog.rpartition(" ")[0] == prog]
        if not known or word.startswith("-"):
            return
        if word not in known:
            hint = suggest(word, known) or f"; there are {', '.join(known)}"
            raise UserError(f"there is no command {f'{prog} {word}'[:100]!r}{hint}")
        prog = f"{prog} {word}"


def add_group(commands: Commands, name: str, text: str, actions: str) -> Commands:
    """A command with subcommands; `actions` names them in the help."""
    parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    return parser.add_subparsers(required=True, metavar=actions, parser_class=made_into(parser.made))


def add_command(
    commands: Commands,
    name: str,
    text: str,
    function: str,
    settings: Sequence[str] = PLACES,
    *,
    epilog: str | None = None,
) -> argparse.ArgumentParser:
    """A command that calls `function` of `mcp_agent.cli.commands`, with flags for the settings that it uses."""
    parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", epilog=epilog)
    # A group of their own: the help then shows the command's own flags before the shared ones.
    parser.settings = tuple(settings)
    group = parser.add_argument_group("settings")
    for setting in DAEMON_SETTINGS:
        if setting.name in settings:
            group.add_argument(
                setting.flag,
                action="append" if setting.name in _REPEATED else "store",
                metavar={"port": "PORT", "fleet": "URL", "box": "NAME", "creds": "FILE", **_REPEATED}.get(
                    setting.name, setting.name.upper()
                ),
                help=f"{setting.help} (default: {setting.shown_default})",
            )
    parser.set_defaults(command=_import_on_call(function))
    return parser


def add_json_flag(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print it as JSON")


def made_into(made: list[Parser]) -> type[Parser]:
    # A cast: argparse calls it and needs no class.
    return cast("type[Parser]", partial(Parser, made))


def _import_on_call(function: str) -> object:
    """The function `module.name`, imported only when its command runs: start-up stays fast."""
    module, _, name = function.partition(".")

    def run_command(options: argparse.Namespace) -> int:
        import importlib

        return int(getattr(importlib.import_module(f"mcp_agent.cli.commands.{module}"), name)(options))

    return run_command
