"""The tools of a wrapped program: one that runs it, and those of its identity, if it has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Struct

from tools.cli.agents import Agents, Handle
from tools.cli.wrap import Wrap
from tools.context import ToolContext
from tools.kit.params import Field
from tools.kit.spec import Tool, tool
from tools.shell.shell_exec import Executed, folder_for

# The program is ended at its own timeout; the deadline of the call leaves time for that.
_SPARE_S = 30.0
Args = Annotated[list[str], Field(description="Arguments, one element each; no shell reads them.")]
Cwd = Annotated[str, Field(description="Folder to run it in.", audited=True)]


class WrappedProgram(Struct, frozen=True):
    """A wrapped program, its tools, and who uses it, if it has an identity."""

    wrap: Wrap
    tools: list[Tool]
    agents: Agents | None = None


def wrapped_program(wrap: Wrap) -> WrappedProgram:
    """Make the tools of a program."""

    async def run(ctx: ToolContext, *, args: Args, cwd: Cwd | None = None) -> Executed:
        wrap.check_subcommand(args)
        return await wrap.run(ctx, args, folder_for(ctx, cwd))

    async def run_in_folder(ctx: ToolContext, *, args: Args, cwd: Cwd) -> Executed:
        return await run(ctx, args=args, cwd=cwd)

    def declare(name: str, description: str, function: Callable[..., Any], **more: Any) -> Tool:
        more |= {"name": name, "description": description, "deadline_s": wrap.timeout_seconds + _SPARE_S}
        return tool(wrap.category, effect="execute", **more)(function)

    text = wrap.description or f"Run a {wrap.command} command. Returns stdout, stderr, and exit code."
    printed = {"destructive": True, "focus": "allowed"}
    if wrap.identity is None:
        return WrappedProgram(wrap, [declare(wrap.id, text, run_in_folder if wrap.cwd_required else run, **printed)])
    agents, name = Agents(wrap), wrap.identity.name

    async def run_as_agent(ctx: ToolContext, *, args: Args, agent_handle: Handle = None) -> Executed:
        wrap.check_subcommand(args)
        link = agents.require(ctx, agent_handle) if wrap.cwd_required else agents.find(ctx, agent_handle)
        return await wrap.run(ctx, args, link.cwd if link else folder_for(ctx, None), agents.environment(link))

    first = f"Initialize {name} MCP session with working directory and optional agent identity. Must be called before"
    made = [
        declare(wrap.id, text, run_as_agent, **printed),
        declare(f"{name}-set_agent", f"{first} using {wrap.id}.", agents.set_agent),
        declare(f"{name}-orient", f"Register an agent; better: '{wrap.command} orient' in a shell.", agents.orient),
        declare(f"{name}-goodbye", "End an agent's registration. No process is ended.", agents.goodbye),
    ]
    return WrappedProgram(wrap, made, agents)
