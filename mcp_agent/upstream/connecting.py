"""Opens a connection to a mounted server with the official client: to a program that is started, or to a URL."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mcp_agent import MOUNTED_BY_HEADER, MOUNTED_BY_VARIABLE, __version__
from mcp_agent.upstream.process_transport import ServerProcess, process_transport
from registry.mounts import Mount, SecretPlace, Values
from registry.user_error import UserError
from tools.cli.program_help import find_program
from tools.sessions.manager import SessionManager

if TYPE_CHECKING:
    from mcp.client import Client, Transport


START_S = 60.0
# The official client: imported at the first use of a mounted server.
_CLIENT_MODULES = ("mcp.client", "mcp.client.streamable_http", "mcp.client.subscriptions", "httpx2")
_OURSELVES = {"name": "mcp-agent", "version": __version__}


class LaunchContext(Struct, frozen=True):
    """Session manager, working directory and boot id for a mounted server."""

    sessions: SessionManager
    folder: Path
    boot: str


class Listeners(Struct, frozen=True):
    """What the other side may say: its tools have changed, or its resources or prompts, or it has ended."""

    on_tools_changed: Callable[[], object]
    on_resources_changed: Callable[[], object]
    on_end: Callable[[], object]


@contextlib.asynccontextmanager
async def connect(
    mount: Mount, context: LaunchContext, process: ServerProcess, listeners: Listeners
) -> AsyncIterator[Client]:
    """A client that has greeted its server. Raises UserError, and whatever the client raises."""
    # It takes half a second. In a thread, because everybody else would wait for it.
    for name in _CLIENT_MODULES:
        await asyncio.to_thread(importlib.import_module, name)
    from mcp.client import Client
    from mcp.types import (
        Implementation,
        PromptListChangedNotification,
        ResourceListChangedNotification,
        ToolListChangedNotification,
    )

    async def hear(message: Any) -> None:
        heard = getattr(message, "root", message)
        if isinstance(heard, ToolListChangedNotification):
            listeners.on_tools_changed()
        elif isinstance(heard, ResourceListChangedNotification | PromptListChangedNotification):
            listeners.on_resources_changed()

    async with contextlib.AsyncExitStack() as stack:
        transport = await _transport(mount, context, process, listeners, stack)
        client = Client(
            transport,
            message_handler=hear,
            client_info=Implementation.model_validate(_OURSELVES),
            cache=None,
        )
        async with asyncio.timeout(START_S):
            await stack.enter_async_context(client)
        yield client


async def _transport(
    mount: Mount,
    context: LaunchContext,
    process: ServerProcess,
    listeners: Listeners,
    stack: contextlib.AsyncExitStack,
) -> Transport:
    if mount.url:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        from mcp_agent.upstream.http_transport import BoundedTransport

        async def note_error(response: httpx2.Response) -> None:
            if response.status_code >= 400:
                process.http_error = f"{response.status_code} {response.reason_phrase}".strip()

        headers = {**_resolve(mount.headers), MOUNTED_BY_HEADER.decode(): context.boot}
        timeout = httpx2.Timeout(30.0, read=mount.timeout_seconds + 30.0)
        hooks = {"response": [note_error]}
        http = httpx2.AsyncClient(
            headers=headers,
            timeout=timeout,
            trust_env=False,
            transport=BoundedTransport(trust_env=False),
            event_hooks=hooks,
        )
        return streamable_http_client(mount.url, http_client=await stack.enter_async_context(http))
    given = _resolve(mount.env)
    process.secrets = [
        given[name] for name, value in mount.env.items() if isinstance(value, SecretPlace) and given[name]
    ]
    environment = {**given, MOUNTED_BY_VARIABLE: context.boot}
    folder = context.folder / Path(os.path.expandvars(mount.cwd)).expanduser()
    if not folder.is_dir():
        raise UserError(f"its folder {folder} is not there")
    program = find_program(mount.command, environment, folder)
    if program is None:
        where = f"a program in {folder}" if os.sep in mount.command else "on the daemon's PATH"
        if Path(mount.command).is_absolute():
            where = "a program that is there"
        raise UserError(f"{mount.command} is not {where}")
    process.on_end = listeners.on_end
    # The processes of each start are told apart by this name, so that ending one ends no other.
    name = f"mount-{mount.category}-{secrets.token_hex(4)}"
    return process_transport(context.sessions, name, (program, *mount.args), folder, environment, process)


def _resolve(values: Values) -> dict[str, str]:
    return {name: value.read() if isinstance(value, SecretPlace) else value for name, value in values.items()}
