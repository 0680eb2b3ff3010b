"""One mounted server: started at its first use, started again after it dies, ended with us.

The official client owns tasks that must end where they began. So each connection lives in a task of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mcp_agent.process.logs import event
from mcp_agent.upstream.connecting import START_S, LaunchContext, Listeners, connect
from mcp_agent.upstream.process_transport import ServerProcess
from registry.mounts import Mount
from tools.kit.errors import ToolError, UpstreamFailed, UpstreamUnavailable

if TYPE_CHECKING:
    from mcp.client import Client

log = logging.getLogger(__name__)

# Told of the progress of a call: what is done, of how much, and a sentence.
Progress = Callable[[float, float | None, str | None], None]

MOST_RESTARTS = 5
_FIRST_PAUSE_S = 0.5
# A server that ran for so long has started well: its earlier failures are forgotten.
_STEADY_S = 60.0
_LISTEN_AGAIN_S = 5.0
_CLOSE_S = 10.0
_MOST_LISTED = 1_000
_MOST_PAGES = 100

# The codes and messages by which the client says that it has no connection any more.
_CONNECTION_CLOSED = (-32000, "Connection closed")
_SESSION_UNKNOWN = (-32600, "Session terminated")
# The client's answers to a server that wants something of a person or a model while a call runs.
_ASKS = [(-32600, f"{what} not supported") for what in ("Elicitation", "Sampling", "List roots")]
_HTTP_ERROR = "Server returned an error response"


class Upstream:
    """The connection to one server, for one caller or for all."""

    def __init__(
        self,
        mount: Mount,
        context: LaunchContext,
        on_tools_changed: Callable[[], object],
        on_resources_changed: Callable[[], object],
    ) -> None:
        self.mount = mount
        self.state = "not started"
        self.problem = ""
        self.process = ServerProcess()
        self.restarts = 0
        self.server_name = ""
        self.protocol_version = ""
        self.calls_under_way = 0
        self._context = context
        self._on_tools_changed = on_tools_changed
        self._on_resources_changed = on_resources_changed
        self._failures = 0
        self._failed_at = 0.0
        # Of the process that failed, until another one runs.
        self._last_stderr = ""
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Client] | None = None
        self._running: Client | None = None
        self._ended = asyncio.Event()

    @property
    def facts(self) -> dict[str, Any]:
        """Its state for people: /health and `mcp-agent tools`."""
        facts: dict[str, Any] = {
            "state": self.state,
            "server": self.server_name,
            "protocol": self.protocol_version,
            "restarts": self.restarts,
            "problem": self.problem,
            "stderr": self.process.last_lines or self._last_stderr,
        }
        return {name: value for name, value in facts.items() if value != ""}

    @property
    def has_given_up(self) -> bool:
        return self._failures > MOST_RESTARTS

    async def list_tools(self) -> list[dict[str, Any]]:
        """Every tool of the server, as it describes them. Raises a ToolError."""
        async with self._use("tools/list") as client:
            return await _every(lambda cursor: client.list_tools(cursor=cursor), "tools")

    async def list_resources(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The resources and the templates of the server; none where it offers none. Raises a ToolError."""
        async with self._use("resources/list") as client:
            if client.server_capabilities.resources is None:
                return [], []
            listed = await _every(lambda cursor: client.list_resources(cursor=cursor), "resources")
            templates = await _every(lambda cursor: client.list_resource_templates(cursor=cursor), "resource_templates")
            return listed, templates

    async def list_prompts(self) -> list[dict[str, Any]]:
        """The prompts of the server; none where it offers none. Raises a ToolError."""
        async with self._use("prompts/list") as client:
            if client.server_capabilities.prompts is None:
                return []
            return await _every(lambda cursor: client.list_prompts(cursor=cursor), "prompts")

    async def call(self, tool: str, arguments: dict[str, Any], report: Progress | None) -> dict[str, Any]:
        """Call a tool. Gives the result as the server sent it. `report` is told of progress. Raises a ToolError."""
        try:
            return await self._call_once(tool, arguments, report)
        except _SessionUnknown:
            # The server was started anew, and has refused the call: it has done nothing yet.
            return await self._call_once(tool, arguments, report)

    async def _call_once(self, tool: str, arguments: dict[str, Any], report: Progress | None) -> dict[str, Any]:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            assert report is not None, "only then is it passed on"
            report(progress, total, message)

        self.calls_under_way += 1
        try:
            async with self._use(tool) as client:
                callback = None if report is None else on_progress
                result = await client.call_tool(tool, arguments, progress_callback=callback)
        finally:
            self.calls_under_way -= 1
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def read_resource(self, uri: str) -> list[dict[str, Any]]:
        """The contents of a resource. Raises a ToolError."""
        async with self._use("resources/read") as client:
            read = await asyncio.wait_for(client.read_resource(uri), self.mount.timeout_seconds)
        return [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in read.contents]

    async def prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        """The result of `prompts/get`. Raises a ToolError."""
        async with self._use("prompts/get") as client:
            prompt = await asyncio.wait_for(client.get_prompt(name, arguments), self.mount.timeout_seconds)
        return prompt.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def restart(self) -> None:
        """End the server, and forget that it failed: the next use starts it."""
        self._failures, self.restarts, ending = 0, 0, self._task
        await self._end_connection()
        if self._task is ending:
            # Nobody has used it, and started it again, while it ended.
            self.state, self.problem, self._last_stderr, self._failures = "not started", "", "", 0

    async def close(self) -> None:
        """End the server for good, and wait until it is gone."""
        self._is_closed = True
        await self._end_connection()

    async def _end_connection(self) -> None:
        self.state = "stopped"
        self._ended.set()
        task = self._task
        if task is None:
            return
        if self._ready is not None and not self._ready.done():
            task.cancel()
        await asyncio.wait([task], timeout=_CLOSE_S)
        task.cancel()

    @contextlib.asynccontextmanager
    async def _use(self, what: str) -> AsyncIterator[Client]:
        """The running client for one request. What goes wrong becomes a ToolError."""
        client = await self._client()
        ended = self._ended
        try:
            yield client
        except Exception as error:
            raise self._as_tool_error(error, what, ended) from None

    async def _client(self) -> Client:
        """The running client; it is started if it does not run. Raises UpstreamUnavailable."""
        if self._running is not None and not self._ended.is_set():
            return self._running
        while self._task is not None and self._ended.is_set() and not self._task.done():
            # The last connection is being closed.
            await asyncio.wait([self._task])
        if self._task is None or self._task.done():
            await self._start()
        assert self._ready is not None, "_start() makes it"
        try:
            return await asyncio.shield(self._ready)
        except ToolError:
            raise self._unavailable() from None

    async def _start(self) -> None:
        if self.has_given_up or self._is_closed:
            raise self._unavailable()
        if self._failures:
            pause_s = _FIRST_PAUSE_S * 2 ** (self._failures - 1) - (time.monotonic() - self._failed_at)
            await asyncio.sleep(max(0.0, pause_s))
            if self._is_closed:
                raise self._unavailable()
            if self._task is not None and not self._task.done():
                # Another call was here first.
                return
            self.restarts += 1
        self.state, self._ended, self.process = "starting", asyncio.Event(), ServerProcess()
        self._ready = asyncio.get_running_loop().create_future()
        # Nobody may wait for it: then its error is nobody's.
        self._ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())
        self._task = asyncio.create_task(self._run(self._ready, self._ended))

    async def _run(self, ready: asyncio.Future[Client], ended: asyncio.Event) -> None:
        """The life of one connection."""
        began = time.monotonic()
        listeners = Listeners(self._on_tools_changed, self._on_resources_changed, ended.set)
        try:
            async with connect(self.mount, self._context, self.process, listeners) as client:
                self.state, self.problem, self._last_stderr = "running", "", ""
                self.server_name = client.server_info.name if client.server_info is not None else ""
                self.protocol_version = client.protocol_version
                event(log, logging.INFO, "mount.connected", mount=self.mount.category, server=self.server_name)
                self._running = client
                ready.set_result(client)
                await self._follow_changes(client, ended)
        except TimeoutError:
            self._fail(f"it did not answer within {START_S:g} s")
        except Exception as error:
            # A boundary: whatever the client raises, the server does not run.
            reason = _reason(error)
            # The client does not say which error it was, nor that the server has ended.
            if reason == _HTTP_ERROR:
                reason = f"HTTP {self.process.http_error}"
            elif self.process.status is not None and self.process.has_ended_itself:
                reason = f"it ended with exit code {self.process.status.exit_code} before it answered"
                self.process.problem = ""
            self._fail(reason)
        finally:
            ended.set()
            self._running = None
            if time.monotonic() - began > _STEADY_S:
                self._failures = 0
            if self.state == "running" and not self._context.sessions.is_closed:
                status = self.process.status
                self._fail(
                    "the connection was lost" if status is None else f"it ended with exit code {status.exit_code}"
                )
            if not ready.done():
                ready.set_exception(self._unavailable())

    async def _follow_changes(self, client: Client, ended: asyncio.Event) -> None:
        """Until the end of the connection, hear of changes of its tools. With a handshake they come by themselves."""
        if _has_handshake(client):
            await ended.wait()
            return
        ending = asyncio.create_task(ended.wait())
        listening = asyncio.create_task(self._listen(client))
        try:
            await asyncio.wait([ending])
        finally:
            for task in (ending, listening):
                task.cancel()
            await asyncio.wait([ending, listening])

    async def _listen(self, client: Client) -> None:
        from mcp.client.subscriptions import ResourcesListChanged, ToolsListChanged

        tools, resources = client.server_capabilities.tools, client.server_capabilities.resources
        has_tools = tools is not None and bool(tools.list_changed)
        has_resources = resources is not None and bool(resources.list_changed)
        while has_tools or has_resources:
            with contextlib.suppress(Exception):
                async with client.listen(tools_list_changed=has_tools, resources_list_changed=has_resources) as changes:
                    async for change in changes:
                        if isinstance(change, ToolsListChanged):
                            self._on_tools_changed()
                        elif isinstance(change, ResourcesListChanged):
                            self._on_resources_changed()
            # The stream was lost: what changed meanwhile is asked for.
            await asyncio.sleep(_LISTEN_AGAIN_S)
            self._on_tools_changed()

    def _as_tool_error(self, error: Exception, what: str, ended: asyncio.Event) -> ToolError:
        """The error for the caller of what failed. What the client raises is the server's doing."""
        from mcp.shared.exceptions import MCPError

        name = self.mount.category
        told = (error.code, str(error)) if isinstance(error, MCPError) else None
        if told == _SESSION_UNKNOWN:
            ended.set()
            return _SessionUnknown(f"{name} does not know this connection any more")
        if ended.is_set() or told == _CONNECTION_CLOSED:
            ended.set()
            return self._unavailable(during=what)
        if told in _ASKS:
            return UpstreamFailed(f"{what} asks for input while it runs, and a mounted server cannot ask anybody")
        if isinstance(error, TimeoutError):
            return UpstreamUnavailable(f"{name} did not answer {what} in time")
        return UpstreamFailed(str(error) if told is not None else f"{name}: {_describe(error)}")

    def _fail(self, reason: str) -> None:
        self._failures += 1
        self._failed_at = time.monotonic()
        self.state, self.problem = "failed", self.process.problem or reason
        self._last_stderr = self.process.last_lines
        event(log, logging.WARNING, "mount.failed", mount=self.mount.category, message=self.problem)

    def _unavailable(self, during: str = "") -> UpstreamUnavailable:
        name = self.mount.category
        happened = f"died during {during}; what it did is not known" if during else "does not run"
        status = self.process.status
        reason = self.problem or self.process.problem or (f"exit code {status.exit_code}" if status else "")
        message = f"the mounted server {name} {happened}" + (f": {reason}" if reason else "")
        hint = None
        if self.has_given_up:
            again = f"its owner can start it: mcp-agent mount restart {name}"
            hint = f"it failed {self._failures} times and is not started again; {again}"
        return UpstreamUnavailable(message, hint=hint, stderr=self.process.last_lines)


class _SessionUnknown(UpstreamUnavailable):
    """The server has forgotten the session, and so has not done what it was asked."""


def _has_handshake(client: Client) -> bool:
    """Whether the server is of the era in which a connection begins with one."""
    return client.protocol_version < "2026"


async def _every(ask: Callable[[str | None], Awaitable[Any]], field: str) -> list[dict[str, Any]]:
    """All pages of a list."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await asyncio.wait_for(ask(cursor), START_S)
        found += [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in getattr(page, field)]
        cursor = page.next_cursor
        if cursor is None or len(found) >= _MOST_LISTED:
            break
    return found[:_MOST_LISTED]


def _describe(error: Exception) -> str:
    """What is wrong with an answer, in one line: of many problems the first."""
    # Only the errors of pydantic, which checks answers for the client, have a method of this name.
    details: Any = getattr(error, "errors", None)
    if not callable(details):
        return str(error)
    first = details(include_url=False)[0]
    return f"its answer is no result of MCP: {'.'.join(map(str, first['loc']))}: {first['msg']}"


def _reason(error: BaseException) -> str:
    """The innermost reason: the client's task groups wrap it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
