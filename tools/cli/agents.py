"""Who uses a wrapped program: the folder and the registered agent that a conversation works for.

Agents register with the program in a shell of their own: only there does it know which process to end when the agent
says goodbye. `set_agent` links a conversation to such an agent. An agent can register through us, too; but through us
no process is ever ended. A call without a conversation names its link by the handle; it never uses another's.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from tools.cli.wrap import Wrap
from tools.context import ToolContext
from tools.files import disk
from tools.kit.errors import NotFound, NotInitialized
from tools.kit.params import Field
from tools.kit.results import Result
from tools.sessions.origin import Origin
from tools.shell.shell_exec import folder_for

_MOST_LINKS = 1_000
_MOST_REGISTRY_BYTES = 16 * 1024 * 1024
_NO_CONVERSATION = "this call belongs to no conversation: pass the handle that set_agent answers as agent_handle"
_SELF_TERMINATE = "Cannot terminate agent via MCP. Agent should self-terminate."
Handle = Annotated[str | None, Field(description="The handle of an earlier set_agent answer.")]


class Link(Struct, frozen=True):
    """What a conversation works for: a folder, and an agent, if it has named one."""

    handle: str
    owner: str
    cwd: Path
    session_id: str
    agent_id: str | None = None
    # False after an orient without a set_agent: the program does not run for it.
    has_folder: bool = True


class AgentAnswer(Result, frozen=True):
    """The answer of an identity tool: one object, and a line of text for each of its keys."""

    value: Mapping[str, Any]

    def as_object(self) -> dict[str, Any]:
        return dict(self.value)

    def render(self) -> str:
        return "\n".join(f"{name}: {value}" for name, value in self.value.items())


class Agents:
    """The links of one wrapped program, and the three tools that make and end them."""

    def __init__(self, wrap: Wrap) -> None:
        assert wrap.identity is not None, "only a wrap with an identity has agents"
        self._wrap, self._identity = wrap, wrap.identity
        self._links: dict[str, Link] = {}
        # The handle that each conversation was given last.
        self._last: dict[str, str] = {}
        # The agents that registered through us, with their registry: no process belongs to them.
        self._ours: dict[str, Path] = {}

    def find(self, ctx: ToolContext, handle: str | None) -> Link | None:
        """The link with that handle; without one, that of the conversation."""
        if handle is None:
            return self.link_of(ctx.origin)
        link = self._links.get(handle)
        if link is None or link.owner != ctx.owner:
            again = f"call {self._identity.name}-set_agent again"
            raise NotFound(f"there is no agent handle {handle[:40]!r}", hint=again)
        return link

    def link_of(self, origin: Origin) -> Link | None:
        """The link that a conversation was given last."""
        return self._links.get(self._last.get(origin.conversation, ""))

    def require(self, ctx: ToolContext, handle: str | None) -> Link:
        link = self.find(ctx, handle)
        if link is None or not link.has_folder:
            message = f"Session not initialized. Call {self._identity.name}-set_agent first."
            raise NotInitialized(message, hint=None if ctx.origin.conversation else _NO_CONVERSATION)
        return link

    def environment(self, link: Link | None) -> dict[str, str]:
        """The variables that tell the program who calls it."""
        if link is None:
            return {}
        named = {self._identity.session_variable: link.session_id, self._identity.agent_variable: link.agent_id}
        return {name: value for name, value in named.items() if name and value}

    async def set_agent(
        self,
        ctx: ToolContext,
        *,
        path: Annotated[str, Field(description="Absolute path of the repository.", audited=True)],
        agent_id: Annotated[str | None, Field(description="Agent id from orient in a shell.", audited=True)] = None,
    ) -> AgentAnswer:
        cwd = folder_for(ctx, path)
        if not cwd.is_dir():
            raise NotFound(f"{path} is not a folder", hint="give the folder of a repository")
        if agent_id is not None and not any(_agent_of(line) == agent_id for line in self._registry_lines(cwd)):
            raise NotFound(f"Agent {agent_id[:100]} not found in registry", hint=f"looked in {self._registry(cwd)}")
        link = self._link(ctx, None, cwd=cwd, agent_id=agent_id)
        message = f"Session initialized for agent {agent_id}" if agent_id else "Session initialized"
        facts = {"success": True, "message": message, "cwd": str(cwd), "agent_id": agent_id, "handle": link.handle}
        if not ctx.origin.conversation:
            facts["hint"] = _NO_CONVERSATION
        return AgentAnswer({name: value for name, value in facts.items() if value is not None})

    async def orient(
        self,
        ctx: ToolContext,
        *,
        args: Annotated[list[str] | None, Field(description="Further arguments of orient.")] = None,
        agent_handle: Handle = None,
    ) -> AgentAnswer:
        link = self.find(ctx, agent_handle)
        cwd = link.cwd if link else folder_for(ctx, None)
        result = await self._wrap.run(ctx, ["orient", *(args or [])], cwd, self.environment(link))
        facts = _object(result.stdout)
        agent_id = facts.get("agent_id")
        if result.exit_code != 0 or not isinstance(agent_id, str):
            return AgentAnswer({"stdout": result.stdout, "stderr": result.stderr or "", "exit_code": result.exit_code})
        self._ours[agent_id] = self._registry(cwd)
        oriented = self._link(ctx, link, cwd=cwd, agent_id=agent_id, has_folder=bool(link and link.has_folder))
        hint = f"Call {self._identity.name}-set_agent with this agent_id to link MCP calls to this registration"
        warning = "Goodbye will not terminate process. Use shell tools for full lifecycle support."
        return AgentAnswer(
            {**facts, "mcp_hint": hint, "warning": f"Agent registered via MCP. {warning}", "handle": oriented.handle}
        )

    async def goodbye(
        self,
        ctx: ToolContext,
        *,
        reason: Annotated[str | None, Field(description="Why the agent ends.", max_length=1_000)] = None,
        agent_handle: Handle = None,
    ) -> AgentAnswer:
        link = self.find(ctx, agent_handle)
        facts: dict[str, Any] = {"should_terminate": True, "use_shell": True}
        link_first = f"Use {self._identity.name}-set_agent with agent_id from shell-based orient call"
        if link is None:
            facts |= {"terminated": False, "warning": _SELF_TERMINATE, "hint": link_first}
        elif link.agent_id is None:
            warning = "No agent_id linked to MCP session. Agent should call goodbye via shell."
            facts |= {"warning": warning, "hint": link_first}
        elif self._ours.get(link.agent_id) == self._registry(link.cwd):
            self._unregister(ctx, link.cwd, link.agent_id)
            self._links[link.handle] = replace(link, agent_id=None)
            facts |= {"terminated": False, "warning": _SELF_TERMINATE, "hint": "The registration is removed."}
        else:
            facts["hint"] = f"Agent must call '{self._wrap.command} goodbye' via shell tool to terminate"
        return AgentAnswer(facts)

    def _link(self, ctx: ToolContext, before: Link | None, **facts: Any) -> Link:
        """A new link in the place of the last one, in the same session. Of too many, the oldest is forgotten."""
        last = self.link_of(ctx.origin) or before
        link = Link(secrets.token_hex(8), ctx.owner, session_id=last.session_id if last else str(uuid.uuid4()), **facts)
        self._links[link.handle] = link
        if ctx.origin.conversation:
            self._last.pop(ctx.origin.conversation, None)
            self._last[ctx.origin.conversation] = link.handle
        for table in (self._links, self._last, self._ours):
            while len(table) > _MOST_LINKS:
                del table[next(iter(table))]
        return link

    def _registry(self, cwd: Path) -> Path:
        return cwd / Path(self._identity.registry).expanduser()

    def _registry_lines(self, cwd: Path) -> list[bytes]:
        """The lines of the registry; none if there is no such file. Raises OSError for one that cannot be read."""
        try:
            return disk.read_small_file(self._registry(cwd), _MOST_REGISTRY_BYTES).splitlines(keepends=True)
        except FileNotFoundError:
            return []

    def _unregister(self, ctx: ToolContext, cwd: Path, agent_id: str) -> None:
        """Take the agent out of the registry, under the rules for files and with an entry in the journal."""
        path = ctx.paths.real(self._registry(cwd))
        with ctx.journal.lock(path):
            seen = disk.lstat(path)
            lines = self._registry_lines(cwd)
            kept = b"".join(line for line in lines if _agent_of(line) != agent_id)
            if len(kept) < sum(map(len, lines)):
                ctx.journal.write(path, kept, seen=seen)
        self._ours.pop(agent_id, None)


def _agent_of(line: bytes) -> str | None:
    """The agent that a line of the registry is about."""
    facts = _object(line)
    return facts.get("agent_id") or facts.get("id")


def _object(text: str | bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
