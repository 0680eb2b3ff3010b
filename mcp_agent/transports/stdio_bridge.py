"""A bridge from standard input and output to the daemon that runs on this machine, over its /mcp.

Every line goes to the daemon as it is, and what the daemon sends comes back as lines. Sessions belong to the daemon and
outlive the bridge. When the daemon is restarted the bridge finds the new one; a call that was under way then is
answered with an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import math
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import orjson

from mcp_agent import BRIDGE_HEADER, MOUNTED_BY_HEADER, MOUNTED_BY_VARIABLE
from mcp_agent.process import signals
from mcp_agent.process.logs import event
from mcp_agent.protocol import eras, jsonrpc
from mcp_agent.protocol.jsonrpc import INTERNAL_ERROR, RpcError, RpcMessage
from mcp_agent.transports.loopback_client import NotSent, Response, folder_headers, send
from mcp_agent.transports.stdio import StdoutWriter, claim_stdout, read_lines
from registry.profiles import Form

log = logging.getLogger(__name__)

# So long a daemon that has gone may take to come back; the call that waits for it is then answered with an error.
_BACK_WITHIN_S = 4.0
_LOOK_EVERY_S = 0.2
# At the end of input, calls have so long to be answered, and the daemon to forget this client.
_FINISH_S = 0.5


class Address(NamedTuple):
    """Where the daemon's /mcp is, and the token for it."""

    url: str
    token: str


# The address of the running daemon; None while there is none.
Find = Callable[[], Address | None]


async def run_bridge(find: Find, form: Form) -> None:
    """Carry messages until standard input ends, or a signal comes."""
    output = StdoutWriter(claim_stdout())
    await _Bridge(find, output, form).run(read_lines())
    output.close()


class _Bridge:
    def __init__(self, find: Find, output: StdoutWriter, form: Form) -> None:
        self._find = find
        self._out = output
        self._tasks: set[asyncio.Task[None]] = set()
        self._stateless: dict[jsonrpc.RequestId, asyncio.Task[None]] = {}
        # What the client said first, to say it again to a daemon that does not know it.
        self._initialize: bytes | None = None
        self._session: str | None = None
        self._version: str | None = None
        self._listening: asyncio.Task[None] | None = None
        # One pipe is one conversation, however many sessions it takes.
        self._conversation = secrets.token_hex(16)
        self._about_client = {**folder_headers(), **({} if form == "auto" else {"X-MCP-Agent-Form": form})}
        # A daemon that has mounted this bridge says who it is, so that loops end.
        by = os.environ.get(MOUNTED_BY_VARIABLE)
        self._mounted_by = {} if by is None else {MOUNTED_BY_HEADER.decode(): by}

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        reading = asyncio.create_task(self._read(lines))
        signals.on_signals(reading.cancel)
        self._out.watch(reading.cancel)
        await asyncio.wait([reading])
        if not reading.cancelled():
            reading.result()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=_FINISH_S)
        for task in (*self._tasks, *([self._listening] if self._listening else [])):
            task.cancel()
        await self._say_goodbye()

    async def _read(self, lines: AsyncIterator[bytes]) -> None:
        async for line in lines:
            if not line.strip():
                continue
            message = _peek(line)
            if message is not None and message.method == "initialize":
                # What follows belongs to the session that this opens.
                self._initialize = line
                self._session = None
                await self._carry(line, message)
                continue
            if message is not None and message.method == "notifications/cancelled":
                task = self._stateless.get(message.params.get("requestId", ""))
                if task is not None:
                    # Without a session, closing the connection is what cancels.
                    task.cancel()
                    continue
            task = asyncio.create_task(self._carry(line, message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            if message is not None and message.id is not None and eras.is_stateless(message):
                self._stateless[message.id] = task
                task.add_done_callback(functools.partial(self._forget, message.id))

    def _forget(self, request_id: jsonrpc.RequestId, _: asyncio.Task[None]) -> None:
        self._stateless.pop(request_id, None)

    async def _carry(self, line: bytes, message: RpcMessage | None) -> None:
        """Send one line, and write what comes back."""
        until = asyncio.get_running_loop().time() + _BACK_WITHIN_S
        try:
            while True:
                address = await self._address(until)
                try:
                    async with send("POST", address.url, self._headers(address, message), line) as answer:
                        if answer.status == 404 and self._session is not None and self._initialize is not None:
                            await self._open_again(address)
                            continue
                        await self._pass_on(answer, message)
                    break
                except NotSent:
                    # It has gone since its address was read.
                    _check_time(until)
                    await asyncio.sleep(_LOOK_EVERY_S)
                except OSError:
                    # Whether it was done is not known here, so it is not asked for again.
                    raise RpcError(INTERNAL_ERROR, "the daemon ended while this call was under way") from None
        except RpcError as error:
            if message is not None and message.id is not None:
                self._out.write(jsonrpc.failure(message.id, error))
        if message is not None and message.method == "notifications/initialized" and self._listening is None:
            self._listening = asyncio.create_task(self._listen())

    async def _pass_on(self, answer: Response, message: RpcMessage | None) -> None:
        if message is not None and message.method == "initialize":
            self._session = answer.headers.get("mcp-session-id")
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            async for data, _ in answer.events():
                # An event that only has an id is for clients that resume.
                if data:
                    self._write(data, message)
            return
        body = await answer.body()
        if body.strip() and answer.status != 202:
            self._write(body, message)

    def _write(self, data: bytes, message: RpcMessage | None) -> None:
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:
            value = None
        if not isinstance(value, dict | list) or (isinstance(value, dict) and "jsonrpc" not in value):
            # A refusal that is no message of MCP: a wrong token, a profile that does not exist.
            request_id = None if message is None else message.id
            if request_id is not None:
                error = value.get("error", {}) if isinstance(value, dict) else {}
                text = str(error.get("message") or "the daemon refused it")
                self._out.write(jsonrpc.failure(request_id, RpcError(INTERNAL_ERROR, text)))
            return
        if message is not None and message.method == "initialize" and isinstance(value, dict):
            self._version = (value.get("result") or {}).get("protocolVersion", self._version)
        is_notification = isinstance(value, dict) and "id" not in value
        (self._out.notify if is_notification else self._out.write)(data.replace(b"\n", b" "))

    async def _listen(self) -> None:
        """Pass on what the daemon sends unasked, from now on and across restarts."""
        last_id = ""
        while True:
            session = self._session
            with contextlib.suppress(OSError, RpcError):
                address = await self._address(math.inf)
                headers = {**self._headers(address, None), "Accept": "text/event-stream", BRIDGE_HEADER.decode(): "1"}
                if last_id:
                    headers["Last-Event-ID"] = last_id
                async with send("GET", address.url, headers) as answer:
                    if answer.status == 404 and self._session == session:
                        await self._open_again(address)
                    elif answer.status == 200:
                        async for data, event_id in answer.events():
                            last_id = event_id or last_id
                            if data:
                                self._out.notify(data)
            if self._session != session:
                last_id = ""
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _open_again(self, address: Address) -> None:
        """Open a session at a daemon that does not know ours, as the client opened it."""
        assert self._initialize is not None, "there was a session"
        message = _peek(self._initialize)
        self._session = None
        async with send("POST", address.url, self._headers(address, message), self._initialize) as answer:
            self._session = answer.headers.get("mcp-session-id")
        ready = jsonrpc.notification("notifications/initialized")
        async with send("POST", address.url, self._headers(address, None), ready):
            pass
        event(log, logging.INFO, "bridge.session_opened_again")

    async def _address(self, until: float) -> Address:
        """Where the daemon is; waits for one that is being restarted. Raises RpcError."""
        while (address := self._find()) is None:
            _check_time(until)
            await asyncio.sleep(_LOOK_EVERY_S)
        return address

    def _headers(self, address: Address, message: RpcMessage | None) -> dict[str, str]:
        headers = {
            "Authorization": f"Bearer {address.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "X-Session-Id": self._conversation,
            **self._about_client,
            **self._mounted_by,
        }
        if message is not None and eras.is_stateless(message):
            return {**headers, **eras.routing_headers(message)}
        if self._session is not None:
            headers["Mcp-Session-Id"] = self._session
        if self._version is not None and (message is None or message.method != "initialize"):
            headers["MCP-Protocol-Version"] = self._version
        return headers

    async def _say_goodbye(self) -> None:
        address = self._find()
        if self._session is None or address is None:
            return
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_FINISH_S):
                async with send("DELETE", address.url, self._headers(address, None)):
                    pass


def _check_time(until: float) -> None:
    """Raise RpcError when the daemon has been away for too long. A client of several boxes must know which it is."""
    if asyncio.get_running_loop().time() > until:
        raise RpcError(
            INTERNAL_ERROR,
            f"no daemon is running on {socket.gethostname()}; nothing was done. Start it there with `mcp-agent serve`",
        )


def _peek(line: bytes) -> RpcMessage | None:
    """The message in a line; None if it is not one, which the daemon then says."""
    try:
        return jsonrpc.message(jsonrpc.decode(line))
    except RpcError:
        return None
