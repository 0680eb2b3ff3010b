"""A client of /events for tests: named events as they come, over a real connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.support.daemon import Daemon
from tests.support.waiting import PATIENCE_S


@dataclass(frozen=True)
class Heard:
    name: str
    id: str | None
    data: dict[str, Any]


class EventStream:
    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self, name: str | None = None) -> Heard:
        """The next event, or the next of that name."""
        async with asyncio.timeout(PATIENCE_S):
            fields: dict[str, str] = {}
            async for line in self._lines:
                field, _, value = line.partition(": ")
                if field in ("event", "id", "data"):
                    fields[field] = value
                if fields.get("event") == "endpoint":
                    # The first event of /sse, and the only one that is no JSON.
                    fields = {}
                elif not line and fields.keys() >= {"event", "data"}:
                    heard = Heard(fields["event"], fields.get("id"), json.loads(fields["data"]))
                    fields = {}
                    if name in (None, heard.name):
                        return heard
        raise EOFError("the stream has ended")

    async def rest(self) -> list[Heard]:
        """Everything up to the exit of a session, that included, or up to the end of the stream."""
        heard = []
        with contextlib.suppress(EOFError):
            while True:
                heard.append(await self.next())
                if heard[-1].name == "shell_session_exit":
                    break
        return heard


@contextlib.asynccontextmanager
async def events(daemon: Daemon, query: str = "", **headers: str) -> AsyncIterator[EventStream]:
    async with (
        daemon.http(**{name.replace("_", "-"): value for name, value in headers.items()}) as http,
        http.stream("GET", f"/events{query}") as response,
    ):
        yield EventStream(response)


async def call(daemon: Daemon, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await daemon.rpc("tools/call", name=tool, arguments=arguments)
    result: dict[str, Any] = answer["result"]["structuredContent"]
    return result


async def start(daemon: Daemon, command: str, **arguments: Any) -> str:
    return str((await call(daemon, "shell_start_session", command=command, **arguments))["session_id"])


def text(heard: list[Heard], stream: str | None = None) -> str:
    """What the output events among them say, put together."""
    outputs = [each.data for each in heard if each.name == "shell_session_output"]
    return "".join(each["chunk"] for each in outputs if stream in (None, each["stream"]))
