"""/sse and /messages: the transport of 2024-11-05, one stream for everything the server says.

The client opens the stream with GET and is told where to post its messages. Each post is acknowledged at once, and
the answer comes on the stream. When the stream ends, so does the work that was asked for through it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from typing import Any

from starlette.types import Receive, Scope, Send

from mcp_agent.calls.call import Caller
from mcp_agent.events.hub import EventHub
from mcp_agent.events.output_frames import named_frame
from mcp_agent.events.types import Condition, Event, Gap, SessionExit, SessionOutput
from mcp_agent.protocol import eras, jsonrpc
from mcp_agent.protocol.conversation import Conversation, asked_event_form
from mcp_agent.protocol.jsonrpc import RequestId, RpcError, RpcMessage
from mcp_agent.protocol.methods import McpRequest, Methods
from mcp_agent.transports.http import (
    ClientLeft,
    caller,
    principal,
    query_value,
    read_json,
    send_empty,
    send_error,
    send_json,
)
from mcp_agent.transports.sse_frames import message_frame, send_frames
from registry.gate import Gate

MOST_CLIENTS = 200
_MOST_WAITING = 100
_TRANSPORT = "sse"


class SseClient:
    """One open stream and the work that was asked for through it."""

    def __init__(self, who: Caller, hub: EventHub, may_hear: Condition, *, hears_named_events: bool) -> None:
        self.who = who
        self.conversation = Conversation(eras.HANDSHAKE_VERSIONS[0])
        # By the id of the request; a batch has none that the client knows.
        self.in_flight: dict[RequestId | object, asyncio.Task[None]] = {}
        self._subscription = hub.subscribe(may_hear, lambda: self.conversation.is_before_a_model)
        self._hears_named_events = hears_named_events
        self._loop = asyncio.get_running_loop()

    @property
    def is_behind(self) -> bool:
        """Whether as many messages wait for this client as may (backpressure)."""
        return self._subscription.unsent + len(self.in_flight) >= _MOST_WAITING

    def say(self, message: bytes) -> None:
        """Send `message` on the stream, before all events that wait."""
        self._subscription.put_answer(message_frame(message))

    def report(self, message: bytes) -> None:
        """Send `message` if the client keeps up. May be called from any thread, as progress is."""
        self._loop.call_soon_threadsafe(self._say_unless_behind, message)

    def frames(self, first: bytes) -> AsyncGenerator[bytes, None]:
        """What goes out on the stream, until it is closed."""
        return self._subscription.stream(self._frame, first)

    def close(self) -> None:
        """The stream is over: cancel the work that was asked for through it."""
        self._subscription.close()
        for task in self.in_flight.values():
            task.cancel()

    def _frame(self, event: Event) -> bytes | None:
        """An event as it goes out on this client's stream; None if the client did not ask for it."""
        if self._hears_named_events and isinstance(event, SessionOutput | SessionExit | Gap):
            return named_frame(event)
        notification = self.conversation.notification(event)
        return None if notification is None else message_frame(notification)

    def _say_unless_behind(self, message: bytes) -> None:
        if not self.is_behind:
            self.say(message)


class Sse:
    """The ASGI applications behind GET /sse and POST /messages."""

    def __init__(self, methods: Methods, gate: Gate, hub: EventHub, ended: Callable[[str], None]) -> None:
        """`ended` is called with the id of a client whose stream is over."""
        self._methods = methods
        self._gate = gate
        self._hub = hub
        self._on_ended = ended
        self._clients: dict[str, SseClient] = {}

    def __len__(self) -> int:
        return len(self._clients)

    async def stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        if len(self._clients) >= MOST_CLIENTS:
            await send_error(send, 503, "too many streams are open", headers={"retry-after": "5"})
            return
        wanted = query_value(scope, "events")
        try:
            form = asked_event_form(wanted, ("named",))
        except RpcError as error:
            await send_error(send, 400, error.message)
            return
        client_id = secrets.token_urlsafe(24)
        who = caller(scope, _TRANSPORT, connection=client_id)
        client = SseClient(
            who, self._hub, lambda: self._gate.offers(who.access, "shell"), hears_named_events=wanted == "named"
        )
        client.conversation.events = form
        self._clients[client_id] = client
        scope["state"]["listener"] = lambda: who.with_client(client.conversation.client)
        endpoint = f"{scope.get('root_path', '')}/messages?session_id={client_id}"
        first = f"event: endpoint\r\ndata: {endpoint}\r\n\r\n".encode()
        try:
            await send_frames(client.frames(first), scope, receive, send)
        finally:
            del self._clients[client_id]
            client.close()
            self._on_ended(client_id)

    async def messages(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await send_error(send, 405, "use POST here", headers={"allow": "POST"})
            return
        client = self._clients.get(query_value(scope, "session_id") or "")
        if client is None or client.who.owner != principal(scope).owner:
            await send_error(send, 404, "there is no open stream of that session_id", "open one with GET /sse first")
            return
        value: Any = None
        try:
            value = await read_json(receive)
            if isinstance(value, list):
                jsonrpc.check_batch(value)
                self._take_batch(client, value)
            else:
                message = jsonrpc.message(value)
                if message is not None:
                    self._take(client, message)
        except ClientLeft:
            return
        except RpcError as error:
            await send_json(send, 400, jsonrpc.failure(jsonrpc.id_of(value), error))
            return
        await send_empty(send, 202)

    def _take(self, client: SseClient, message: RpcMessage) -> None:
        if message.id is None:
            request_id = message.params.get("requestId")
            if message.method == "notifications/cancelled" and isinstance(request_id, str | int):
                task = client.in_flight.get(request_id)
                if task is not None:
                    task.cancel()
            return
        if client.is_behind or message.id in client.in_flight:
            raise RpcError(jsonrpc.INVALID_REQUEST, "too many requests are under way, or one with this id is")
        client.in_flight[message.id] = asyncio.create_task(self._answer(client, message, message.id))

    def _take_batch(self, client: SseClient, values: list[Any]) -> None:
        if client.is_behind:
            raise RpcError(jsonrpc.INVALID_REQUEST, "too many requests are under way")
        batch = object()

        async def answer() -> None:
            try:
                if body := await self._methods.answer_batch(values, lambda each: self._request(client, each)):
                    client.say(body)
            finally:
                client.in_flight.pop(batch, None)

        client.in_flight[batch] = asyncio.create_task(answer())

    async def _answer(self, client: SseClient, message: RpcMessage, request_id: RequestId) -> None:
        try:
            client.say((await self._methods.answer(self._request(client, message))).body)
        finally:
            client.in_flight.pop(request_id, None)

    def _request(self, client: SseClient, message: RpcMessage) -> McpRequest:
        who = client.who.with_client(client.conversation.client)
        return McpRequest(message, who, client.conversation, client.report)
