"""A WebSocket client of a terminal, as Open WebUI's proxy is one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.support.daemon import Daemon
from tests.support.open_terminal import PATH, post, terminal
from tests.support.waiting import PATIENCE_S, within


class Shell:
    """A person at a terminal: types, and reads what is shown."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.shown = bytearray()

    async def say(self, **message: Any) -> None:
        await self.connection.send(json.dumps(message))

    async def type(self, keys: str | bytes) -> None:
        await self.connection.send(keys.encode() if isinstance(keys, str) else keys)

    async def sees(self, text: str) -> str:
        """All that was shown, once `text` is in it."""
        wanted, searched = text.encode(), 0
        async with within(PATIENCE_S):
            while self.shown.find(wanted, searched) < 0:
                searched = max(0, len(self.shown) - len(wanted))
                data = await self.connection.recv()
                self.shown += data if isinstance(data, bytes) else data.encode()
        return self.shown.decode("utf-8", "replace")

    async def closed(self) -> tuple[int, str]:
        """The code and the reason with which the daemon closes the connection."""
        async with within(PATIENCE_S):
            with contextlib.suppress(ConnectionClosed):
                while True:
                    data = await self.connection.recv()
                    self.shown += data if isinstance(data, bytes) else data.encode()
        return self.connection.close_code or 0, self.connection.close_reason or ""


def address(daemon: Daemon, terminal_id: str, user: str = "u-1") -> str:
    return f"{daemon.url.replace('http', 'ws', 1)}{PATH}/api/terminals/{terminal_id}?user_id={user}"


async def reserve(daemon: Daemon, **person: str) -> str:
    async with terminal(daemon, **person) as page:
        found: str = (await post(page, "/api/terminals"))["id"]
        return found


@contextlib.asynccontextmanager
async def attached(
    daemon: Daemon, terminal_id: str, *, user: str = "u-1", chat: str = "c-1", headers: Mapping[str, str] | None = None
) -> AsyncIterator[Shell]:
    """A connection to a terminal that has not said who it is."""
    claims = {"X-User-Id": user, "X-Session-Id": chat, **(headers or {})}
    async with connect(address(daemon, terminal_id, user), additional_headers=claims, proxy=None) as connection:
        yield Shell(connection)


@contextlib.asynccontextmanager
async def shell_of(
    daemon: Daemon, *, token: str | None = None, user: str = "u-1", chat: str = "c-1"
) -> AsyncIterator[Shell]:
    """A shell as the page opens one."""
    person = {"user": user, "chat": chat} | ({} if token is None else {"token": token})
    terminal_id = await reserve(daemon, **person)
    async with attached(daemon, terminal_id, user=user, chat=chat) as opened:
        await opened.say(type="auth", token=token or daemon.token)
        await opened.say(type="resize", cols=100, rows=30)
        yield opened
