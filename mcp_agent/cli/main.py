"""The command line: its commands in groups, and the way from what was typed to the function of one of them."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_agent import __version__
from mcp_agent.cli.declaration import PROGRAM, Command
from mcp_agent.cli.old_spellings import current_spelling
from mcp_agent.process.printing import plain_output
from registry.user_error import UsageError, UserError
from tools.kit.spelling import did_you_mean

if TYPE_CHECKING:
    from registry.catalog import Catalog

_DESCRIPTION = "A remote tool host for language models: read, search, patch and run things on this machine."
_EPILOG = """\
`mcp-agent COMMAND --help` shows the flags of a command, with examples. Start the daemon with `mcp-agent serve`, connect
a client with `mcp-agent connect`, and switch tools on and off with `mcp-agent enable` and `disable` while it runs.
Exit codes: 1 if it failed, 2 if it was typed wrong, 3 if no daemon runs.
"""


class Word(NamedTuple):
    """The first word of a command, or of several: the modules that declare them, and what the help says of it."""

    modules: str
    summary: str


# What the help shows, so that it imports no command: each of them would take longer than the help itself.
GROUPS: dict[str, dict[str, Word]] = {
    "Run": {
        "serve": Word("serve", "run the daemon over HTTP"),
        "stop": Word("running", "end the daemon"),
        "restart": Word("running", "end the daemon, and start it again as it was started"),
        "status": Word("running", "whether the daemon runs, where, and what it does"),
        "logs": Word("daemon_log", "print the log of the daemon"),
        "open": Word("running", "open the Tools page in the browser"),
        "service": Word("service", "run the daemon as a service of the user (systemd)"),
        "stdio": Word("serve", "serve one client over standard input and output"),
        "version": Word("running", "print the version of this program and of the daemon"),
        "completion": Word("completion", "print the completion script of a shell"),
        "uninstall": Word("uninstall", "say what is where, and remove what we wrote"),
    },
    "Connect": {
        "connect": Word("connect", "put the daemon into the configuration of a client"),
        "init": Word("init", "set up AGENTS.md and clients for the project in this folder"),
        "expose": Word("expose", "make the daemon public, for claude.ai, ChatGPT and every client of OAuth"),
        "token": Word("token", "a token and a profile for each client"),
        "doctor": Word("doctor", "find out why a client does not connect"),
    },
    "Policy": {
        "tools": Word("tools", "show the tools that a client would see, or one of them with its arguments"),
        "enable": Word("profile", "switch categories, tools, or everything of an effect on"),
        "disable": Word("profile", "switch categories, tools, or everything of an effect off"),
        "ask": Word("profile", "let categories, tools, or everything of an effect ask you before they run"),
        "profile": Word("profile", "list, show, choose, make and change profiles"),
        "check": Word("tools", "check a tools.json and print every problem in it"),
        "mount": Word("mount", "offer the tools of another MCP server as a category"),
        "wrap": Word("wrap_program", "offer a command line program as a tool"),
    },
    "Watch": {
        "call": Word("call", "call a tool and print its result"),
        "sessions": Word("sessions", "list, watch and stop the shell sessions of the daemon"),
        "approvals": Word("approvals", "see, watch and answer the calls that wait for your approval"),
        "audit": Word("audit", "show who did what: every call, policy change and refused login"),
        "undo": Word("undo", "list what tools changed in files, and take changes back"),
        "artifacts": Word("artifacts", "list, show and remove artifacts: results that were too large"),
    },
    "Fleet": {
        "gateway": Word("serve_gateway", "serve the tools of all boxes of a fleet over HTTP"),
        "fleet": Word("fleet_trial fleet", "make a fleet of boxes: its keys, its NATS server, and who may join"),
    },
}
WORDS = {name: word for words in GROUPS.values() for name, word in words.items()}


def run(arguments: Sequence[str], catalog: Catalog | None = None) -> int:
    """Run a command line and return its exit code. With `catalog`, only those tools are served."""
    with plain_output():
        try:
            code = _run(list(arguments), catalog)
            sys.stdout.flush()
            return code
        except UserError as error:
            print(f"mcp-agent: {error}", file=sys.stderr)
            return error.exit_code
        except BrokenPipeError:
            # The reader closed the pipe early, as `head` does.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return 0
        except OSError as error:
            # Such as a full disk, or a folder without access. Where we know more, we have said it as a UserError.
            print(f"mcp-agent: {error}", file=sys.stderr)
            return UserError.exit_code
        except KeyboardInterrupt:
            return 130


def _run(words: list[str], catalog: Catalog | None) -> int:
    # What stands behind -- is the command line of another program, whatever it looks like.
    place = words.index("--") if "--" in words[:-1] else len(words)
    words, server_command = words[:place], words[place + 1 :]
    if words[:1] == ["__complete"]:
        return int(_module("completion").print_candidates(words[1:]))
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if words[:1] in (["-V"], ["--version"]):
        print(f"mcp-agent {__version__}")
        return 0
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0
    words, note = current_spelling(words, is_followed=bool(server_command))
    if note:
        print(f"mcp-agent: {note}", file=sys.stderr)
    command = find_command(words)
    if command is None:
        return _help_of_several(words)
    options = argparse.Namespace(catalog=catalog, server_command=server_command)
    command.parser().read(words[len(command.words) :], options)
    return command.run(options)


def find_command(words: Sequence[str]) -> Command | None:
    """The command that the words begin with; None where they name several. Raises UsageError if they name none."""
    if words[0] not in WORDS:
        raise UsageError(f"there is no command '{PROGRAM} {words[0][:60]}'{_meant(words[0], list(WORDS))}")
    commands = commands_of(words[0])
    fitting = [each for each in commands if tuple(words[: len(each.words)]) == each.words]
    if fitting:
        return max(fitting, key=lambda each: len(each.words))
    if len(words) > 1 and not words[1].startswith("-"):
        known = [each.words[1] for each in commands]
        raise UsageError(f"there is no command '{PROGRAM} {words[0]} {words[1][:60]}'{_meant(words[1], known)}")
    return None


def commands_of(word: str) -> list[Command]:
    """The commands that begin with this word, in the order in which their modules declare them."""
    modules = map(_module, WORDS[word].modules.split())
    declared = [each for module in modules for each in vars(module).values() if isinstance(each, Command)]
    return [each for each in declared if each.words[0] == word]


def _module(name: str) -> Any:
    return importlib.import_module(f"mcp_agent.cli.commands.{name}")


def every_command() -> Iterator[Command]:
    for word in WORDS:
        yield from commands_of(word)


def _meant(wrong: str, known: list[str]) -> str:
    return did_you_mean(wrong, known) or f"; there are {', '.join(known)}"


def _help() -> str:
    lines = [f"usage: {PROGRAM} COMMAND [flags]", "", _DESCRIPTION]
    for group, words in GROUPS.items():
        lines += ["", group, *(f"  {name:11} {word.summary}" for name, word in words.items())]
    return "\n".join([*lines, "", _EPILOG])


def _sentence(summary: str) -> str:
    return f"{summary[:1].upper()}{summary[1:]}."


def _help_of_several(words: list[str]) -> int:
    """The help of commands with one first word. Without `--help`, the second word is missing."""
    commands = commands_of(words[0])
    known = "|".join(each.words[1] for each in commands)
    if not {"-h", "--help"} & set(words):
        raise UsageError(f"mcp-agent {words[0]} needs one of {known}; {PROGRAM} {words[0]} --help says what they do")
    print(f"usage: {PROGRAM} {words[0]} {known} [flags]\n\n{_sentence(WORDS[words[0]].summary)}\n")
    for each in commands:
        print(f"  {each.words[1]:11} {each.summary}")
    print("\nexamples:")
    for example in (commands[0].examples[0], commands[-1].examples[0]):
        print(f"  {example}")
    return 0
