"""What tools.json says of a wrapped program, and how such a program is run: without a shell, with a timeout.

A blocked subcommand is a guard rail against mistakes, such as a subcommand that opens a window and never ends. It is no
boundary: a program may have other ways to do the same.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from tools.cli.program_help import find_program
from tools.context import ToolContext
from tools.effects.watched import watched
from tools.kit.errors import BlockedSubcommand, NotFound, Timeout
from tools.shell.shell_exec import Executed, check_text, run_to_end, sessions

MISSING_PROGRAM = 127
_MOST_OUTPUT_BYTES = 1024 * 1024


class Identity(Struct, frozen=True):
    """How the callers of a wrapped program are told apart: by agents, which the program itself registers.

    `name` is the beginning of the names of its tools. `registry` is the file with the agents, one JSON object a line;
    a relative path counts from the folder of the session.
    """

    name: str
    registry: str
    session_variable: str = ""
    agent_variable: str = ""


class WrappedDocument(Struct, frozen=True):
    """A resource of a wrapped program: the output of the program with these arguments, or a file."""

    uri: str
    args: tuple[str, ...] | None = None
    file: str | None = None
    description: str = ""


class Wrap(Struct, frozen=True):
    """One wrapped program, as `wrap` in tools.json describes it."""

    id: str
    command: str
    category: str
    # The subcommands that are refused, each with the reason.
    blocked: Mapping[str, str] = field(default_factory=dict)
    # The global options that take a value: the subcommand comes after it.
    value_options: tuple[str, ...] = ()
    timeout_seconds: float = 30.0
    env: Mapping[str, str] = field(default_factory=dict)
    cwd_required: bool = False
    description: str = ""
    identity: Identity | None = None
    resources: tuple[WrappedDocument, ...] = ()

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools that this program becomes."""
        if self.identity is None:
            return (self.id,)
        return (self.id, *(f"{self.identity.name}-{end}" for end in ("set_agent", "orient", "goodbye")))

    def check_subcommand(self, args: Sequence[str]) -> None:
        """Raise BlockedSubcommand if the subcommand in `args` is one of those that are refused."""
        name = next((each for each in possible_subcommands(args, self.value_options) if each in self.blocked), None)
        if name is not None:
            raise BlockedSubcommand(f"Subcommand '{name}' is blocked in {self.id}. {self.blocked[name]}".rstrip())

    async def run(
        self, ctx: ToolContext, args: Sequence[str], cwd: Path, environment: Mapping[str, str] | None = None
    ) -> Executed:
        """Run the program to its end. Raises Timeout with exit code 124, and NotFound with 127 where there is none."""
        for index, argument in enumerate(args):
            check_text(f"args.{index}", argument)
        line = shlex.join((self.command, *args))
        ctx.check_command(line)
        program = find_program(self.command, self.env)
        if program is None:
            hint, fields = "it is not on the daemon's PATH", {"stdout": "", "stderr": "", "exit_code": MISSING_PROGRAM}
            raise NotFound(f"{self.command} binary not found", hint=hint, fields=fields)
        began = time.monotonic()
        async with watched(ctx.effects, cwd, line) as watch:
            session = sessions(ctx).execute(
                line,
                cwd,
                argv=(program, *args),
                origin=ctx.origin,
                captures={"stdout": _MOST_OUTPUT_BYTES, "stderr": _MOST_OUTPUT_BYTES},
                reads_stderr=True,
                environment={**self.env, **(environment or {})},
            )
            result = await run_to_end(ctx, session, began, watch, self.timeout_seconds)
        if result.timed_out:
            place = result.artifactRef or result.output_path
            whole = f"all that it printed is in {place}" if result.truncated else None
            message = f"Command timed out after {self.timeout_seconds:g} seconds"
            raise Timeout(message, hint=whole, fields=result.as_object())
        return result


def possible_subcommands(args: Sequence[str], value_options: Sequence[str]) -> Iterator[str]:
    """The first argument that is neither an option nor the value of one.

    `value_options` are the options whose value is the argument behind them. Where none is known, what is behind an
    option may be its value or the subcommand, so the next argument may be the subcommand, too.
    """
    rest, may_be_value = iter(args), False
    for argument in rest:
        if argument == "--":
            yield from [*rest][:1]
            return
        if not argument.startswith("-"):
            yield argument
            if not may_be_value:
                return
        elif _takes_next(argument, value_options):
            next(rest, None)
        may_be_value = not value_options and argument.startswith("-") and "=" not in argument


def _takes_next(option: str, value_options: Sequence[str]) -> bool:
    """Whether the value of an option is the argument behind it: `-C`, or `-pC` for `-p -C`, but not `-Cfolder`."""
    if option in value_options or option.startswith("--"):
        return option in value_options
    letters = (index for index in range(1, len(option)) if f"-{option[index]}" in value_options)
    return next(letters, None) == len(option) - 1
