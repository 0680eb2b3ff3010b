"""All mounted servers of a daemon: their tools, whether they run or not, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_agent import MOUNTED_BY_VARIABLE
from mcp_agent.process.logs import event
from registry.profiles import Profiles, UnknownName
from tools.context import ToolContext
from tools.kit.errors import ToolError, UpstreamUnavailable
from tools.kit.spec import Tool
from tools.sessions.manager import SessionManager

# The rest of this room is imported when something is mounted.
if TYPE_CHECKING:
    from mcp_agent.upstream.known_tools import KnownTools
    from mcp_agent.upstream.mounted_tools import CallUpstream
    from mcp_agent.upstream.upstream_server import Upstream
    from registry.mounts import Mount

log = logging.getLogger(__name__)

_MOST_INSTANCES = 20
_MOST_LINKS = 1_000
# A server that says all the time that its tools have changed is not asked more often than that.
_ASK_AGAIN_S = 0.25
_LOOP = "this daemon is mounted by another one and mounts nothing itself: loops end here"


class Mounts:
    """Owns the connections to mounted servers. `folder` keeps what they listed."""

    def __init__(self, sessions: SessionManager, working_directory: Path, folder: Path, boot: str) -> None:
        # Tools that could not be given a name, each with the reason.
        self.problems: dict[str, str] = {}
        self._sessions = sessions
        self._working_directory = working_directory
        self._folder = folder
        self._boot = boot
        self._mounts: Mapping[str, Mount] = {}
        # The mounts of a daemon that is mounted itself.
        self._skipped: Mapping[str, Mount] = {}
        self._known: dict[str, KnownTools] = {}
        # By category and caller; the caller is empty where one server is for all.
        self._upstreams: dict[tuple[str, str], Upstream] = {}
        self._links: dict[str, str] = {}
        self._unlisted: set[str] = set()
        self._has_unlisted = asyncio.Event()
        # Those that were asked, and have neither answered nor failed. The event is set, and replaced, when one has.
        self._pending: set[str] = set()
        self._news = asyncio.Event()
        self._listing: dict[str, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def tools(self, profiles: Profiles, taken: Collection[str]) -> list[Tool]:
        """The tools of every mount in `profiles`; `taken` are names of other tools."""
        self._skipped = profiles.mounts if MOUNTED_BY_VARIABLE in os.environ else {}
        self._replace({} if self._skipped else profiles.mounts)
        if not self._mounts:
            self.problems = {}
            return []
        from mcp_agent.upstream.mounted_tools import mounted_tool
        from mcp_agent.upstream.placing import place_tools

        placed, self.problems = place_tools(self._mounts, self._known, taken)
        return [mounted_tool(each.mount, each.name, each.entry, self._caller(each.mount)) for each in placed]

    async def follow(self, on_change: Callable[[str], Awaitable[None]]) -> None:
        """Until cancelled, list the tools of servers that are new, or that say that theirs have changed."""
        if self._skipped:
            event(log, logging.WARNING, "mount.skipped", message=_LOOP, mounts=", ".join(self._skipped))
        try:
            while True:
                self._has_unlisted.clear()
                for category in [each for each in self._unlisted if each not in self._listing]:
                    self._listing[category] = asyncio.create_task(self._list(category, on_change))
                await self._has_unlisted.wait()
        finally:
            for task in self._listing.values():
                task.cancel()
            if self._listing:
                await asyncio.wait(self._listing.values())

    async def settle(self, category: str, within_s: float) -> dict[str, Any]:
        """Wait until a server has listed its tools, or has failed, and give its facts. Raises UnknownName."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while category in self._pending:
                    await self._news.wait()
        return self._named_facts(category)

    async def restart(self, category: str) -> None:
        """End a server, and start it again at once, also after it failed too often. Raises UnknownName."""
        self._named_facts(category)
        await asyncio.gather(*(each.restart() for key, each in self._upstreams.items() if key[0] == category))
        self._ask(category)

    async def close(self) -> None:
        await asyncio.gather(*self._closing, *(upstream.close() for upstream in self._upstreams.values()))

    def known(self, category: str) -> KnownTools:
        """What the server of a category lists. Raises UnknownName."""
        self._named_facts(category)
        return self._known[category]

    @property
    def categories(self) -> list[str]:
        return list(self._mounts)

    @property
    def facts(self) -> dict[str, dict[str, Any]]:
        """The state of each mount, for /health and the command line."""
        return {category: self._named_facts(category) for category in self._mounts}

    def owner_of(self, uri: str) -> str | None:
        """The category whose server has a resource; None if no server has it."""
        linked = self._links.get(uri)
        return linked or next((name for name in self._mounts if self._known[name].offers(uri)), None)

    async def read_resource(self, category: str, uri: str, caller: str) -> list[dict[str, Any]]:
        """Raises a ToolError."""
        return await self._upstream(self._mounts[category], caller).read_resource(uri)

    async def prompt(self, category: str, name: str, arguments: dict[str, str], caller: str) -> dict[str, Any]:
        """Raises a ToolError."""
        return await self._upstream(self._mounts[category], caller).prompt(name, arguments)

    def _named_facts(self, category: str) -> dict[str, Any]:
        if category not in self._mounts:
            raise UnknownName.among("no server is mounted as", category, self._mounts)
        instances = [each for key, each in self._upstreams.items() if key[0] == category]
        facts = instances[-1].facts if instances else {"state": "not started"}
        known = self._known[category]
        changed = [change.name for change in known.changes]
        problems = {key: value for key, value in self.problems.items() if key.startswith(f"{category}/")}
        return {
            **facts,
            "tools": len(known.tools),
            **({"instances": len(instances)} if self._mounts[category].is_per_caller else {}),
            **({"changed": changed} if changed else {}),
            **({"left_out": problems} if problems else {}),
        }

    def _replace(self, mounts: Mapping[str, Mount]) -> None:
        """Take over the mounts of a new tools.json, and end servers that are gone or described differently."""
        for category, mount in mounts.items():
            if self._mounts.get(category) != mount:
                from mcp_agent.upstream.known_tools import KnownTools

                self._known[category] = KnownTools(self._folder, mount)
                if not self._known[category].is_known:
                    self._ask(category)
        for key, upstream in list(self._upstreams.items()):
            if mounts.get(key[0]) != upstream.mount:
                del self._upstreams[key]
                self._close_in_background(upstream)
        self._unlisted.intersection_update(mounts)
        self._links = {uri: category for uri, category in self._links.items() if category in mounts}
        self._mounts = mounts

    def _close_in_background(self, upstream: Upstream) -> None:
        task = asyncio.get_running_loop().create_task(upstream.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _ask(self, category: str) -> None:
        """Have the tools of a server listed."""
        self._unlisted.add(category)
        self._pending.add(category)
        self._has_unlisted.set()

    async def _list(self, category: str, on_change: Callable[[str], Awaitable[None]]) -> None:
        """List what a server has, and again as long as it changes. A new server that does not start is tried again."""
        try:
            while category in self._unlisted and (mount := self._mounts.get(category)) is not None:
                self._unlisted.discard(category)
                upstream, known = self._upstream(mount, ""), self._known[category]
                try:
                    tools, resources = await upstream.list_tools(), await upstream.list_resources()
                    listed = tools, *resources, await upstream.list_prompts()
                except ToolError as error:
                    if self._mounts.get(category) != mount and category in self._unlisted:
                        # It was ended because another one has taken its place, which is asked now.
                        continue
                    event(log, logging.WARNING, "mount.not_listed", mount=category, message=error.message)
                    upstream.problem = upstream.problem or error.message
                    if not known.is_known and upstream.state == "failed" and not upstream.has_given_up:
                        self._unlisted.add(category)
                    self._announce(category)
                    continue
                if mount.is_per_caller:
                    self._upstreams.pop((category, ""), None)
                    self._close_in_background(upstream)
                if await asyncio.to_thread(known.learn, *listed):
                    if known.changes:
                        changed = ", ".join(change.name for change in known.changes)
                        event(log, logging.WARNING, "mount.tools_changed", mount=category, tools=changed)
                    await on_change(category)
                self._announce(category)
                await asyncio.sleep(_ASK_AGAIN_S)
        finally:
            del self._listing[category]
            self._has_unlisted.set()

    def _announce(self, category: str) -> None:
        self._pending.discard(category)
        self._news.set()
        self._news = asyncio.Event()

    def _caller(self, mount: Mount) -> CallUpstream:
        from mcp_agent.upstream.mounted_tools import resource_links

        async def call(ctx: ToolContext, entry: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
            answer = await self._upstream(mount, ctx.owner).call(
                str(entry["name"]),
                arguments,
                ctx.progress if ctx.wants_progress else None,
            )
            if links := resource_links(answer):
                self._remember(links, mount.category)
            return answer

        return call

    def _remember(self, links: Collection[str], category: str) -> None:
        for link in links:
            self._links.pop(link, None)
            self._links[link] = category
        while len(self._links) > _MOST_LINKS:
            del self._links[next(iter(self._links))]

    def _upstream(self, mount: Mount, caller: str) -> Upstream:
        """The connection for a caller. Raises UpstreamUnavailable if there are too many."""
        key = (mount.category, caller if mount.is_per_caller else "")
        upstream = self._upstreams.pop(key, None)
        if upstream is None:
            from mcp_agent.upstream.connecting import LaunchContext
            from mcp_agent.upstream.upstream_server import Upstream

            if mount.is_per_caller:
                self._make_room(mount.category)

            def ask() -> None:
                self._ask(mount.category)

            context = LaunchContext(self._sessions, self._working_directory, self._boot)
            upstream = Upstream(mount, context, ask, ask)
        # The one that was used last stands last.
        self._upstreams[key] = upstream
        return upstream

    def _make_room(self, category: str) -> None:
        """End the server that was not used for the longest time, if there are as many as there may be."""
        instances = [(key, each) for key, each in self._upstreams.items() if key[0] == category]
        if len(instances) < _MOST_INSTANCES:
            return
        idle = next(((key, each) for key, each in instances if not each.calls_under_way), None)
        if idle is None:
            raise UpstreamUnavailable(f"{category} runs for {len(instances)} callers already", hint="try again later")
        del self._upstreams[idle[0]]
        self._close_in_background(idle[1])
