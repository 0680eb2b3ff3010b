"""A member as a service of NATS, so that `nats service list` shows it. Our own gateways do not look here.

Pings and questions for info and stats are answered. Gateways speak the protocol of `call_protocol` on its one endpoint.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from mcp_agent import __version__
from mcp_agent.fleet.bus import Message
from mcp_agent.fleet.credentials import SERVICE
from mcp_agent.fleet.subjects import verb_subject

_TYPE = "io.nats.micro.v1"


class NatsService:
    """Answers for one box; `served` tells how many calls it has been sent."""

    def __init__(self, box: str, boot: str, metadata: Mapping[str, str], served: Callable[[], int]) -> None:
        self._box = box
        self._metadata = dict(metadata)
        self._served = served
        self._started = datetime.fromtimestamp(time.time(), UTC).isoformat().replace("+00:00", "Z")
        self._subject = verb_subject(box, boot, "call", "*")

    def subscriptions(self) -> Iterator[tuple[str, Callable[[Message], Awaitable[None]]]]:
        """One for each way to name services: all, those of a name, this one. Each takes every question."""
        for place in ("", f".{SERVICE}", f".{SERVICE}.{self._box}"):
            yield f"$SRV.*{place}", self._answer

    async def _answer(self, message: Message) -> None:
        match message.subject.split(".")[1]:
            case "PING":
                await self._ping(message)
            case "INFO":
                await self._info(message)
            case "STATS":
                await self._stats(message)

    async def _ping(self, message: Message) -> None:
        await message.respond(orjson.dumps(self._identity("ping")))

    async def _info(self, message: Message) -> None:
        endpoint = {"name": "call", "subject": self._subject, "queue_group": "", "metadata": {}}
        described = {"description": "A box of an mcp-agent fleet", "endpoints": [endpoint]}
        await message.respond(orjson.dumps({**self._identity("info"), **described}))

    async def _stats(self, message: Message) -> None:
        counts = {"num_requests": self._served(), "num_errors": 0, "last_error": ""}
        times = {"processing_time": 0, "average_processing_time": 0}
        endpoint = {"name": "call", "subject": self._subject, "queue_group": "", **counts, **times}
        stats = {"started": self._started, "endpoints": [endpoint]}
        await message.respond(orjson.dumps({**self._identity("stats"), **stats}))

    def _identity(self, kind: str) -> dict[str, Any]:
        return {
            "type": f"{_TYPE}.{kind}_response",
            "name": SERVICE,
            "id": self._box,
            "version": __version__,
            "metadata": self._metadata,
        }
