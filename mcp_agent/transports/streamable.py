"""/mcp: Streamable HTTP, for handshake clients and stateless ones on the one URL."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson
from starlette.types import Receive, Scope, Send

from mcp_agent import BRIDGE_HEADER, MOUNTED_BY_HEADER
from mcp_agent.answers.budget import text_client
from mcp_agent.events.hub import EventHub
from mcp_agent.events.types import Condition, Event, Gap, SessionExit, SessionOutput, ToolsChanged
from mcp_agent.process.logs import event
from mcp_agent.protocol import eras, jsonrpc
from mcp_agent.protocol.conversation import TOOLS_CHANGED, Conversation, asked_event_form, event_form
from mcp_agent.protocol.jsonrpc import INVALID_REQUEST, RequestId, RpcError, RpcMessage, WireAnswer
from mcp_agent.protocol.listen import METHOD as LISTEN
from mcp_agent.protocol.listen import Filter, listen
from mcp_agent.protocol.methods import McpRequest, Methods
from mcp_agent.transports.exchange import Exchange
from mcp_agent.transports.http import (
    ClientLeft,
    caller,
    header,
    header_text,
    principal,
    query_value,
    read_json,
    send_empty,
    send_error,
    send_json,
)
from mcp_agent.transports.http_sessions import HttpSession, HttpSessions
from mcp_agent.transports.sse_frames import (
    event_id,
    is_of_request,
    message_frame,
    parse_event_id,
    priming_frame,
    send_frames,
)
from registry.gate import Gate

log = logging.getLogger(__name__)

_TRANSPORT = "http"
_ALLOW = {"allow": "GET, POST, DELETE"}
# From this version on, clients understand an event without a message.
_PRIMING_SINCE = "2025-11-25"
_MOUNTED_ITSELF = "this daemon has mounted itself: its URL is its own; it already has all of these tools"
# The one request that we make of clients: which folders they work in.
_ROOTS_ID = "mcp-agent-roots"
_ASK_ROOTS = orjson.dumps({"jsonrpc": "2.0", "id": _ROOTS_ID, "method": "roots/list"})
_ROOTS_ARE_NEW = ("notifications/initialized", "notifications/roots/list_changed")
_MOST_ROOT_CHARS = 4_096
_OPEN_FIRST = "send initialize again to open a new session"


class StreamableHttp:
    """The ASGI application behind /mcp and /mcp/<profile>."""

    def __init__(self, methods: Methods, gate: Gate, hub: EventHub, sessions: HttpSessions) -> None:
        self._methods = methods
        self._gate = gate
        self._hub = hub
        # What this daemon says of itself to the servers that it mounts.
        self._own_mark = hub.boot.encode()
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        profile = scope["path_params"].get("profile") if "path_params" in scope else None
        if profile is not None and not self._gate.has_profile(profile):
            await send_error(send, 404, f"there is no profile {profile[:60]!r}", "mcp-agent profile list shows them")
            return
        match scope["method"]:
            case "POST":
                await self._post(scope, receive, send)
            case "GET" | "DELETE" if header_text(scope, b"mcp-protocol-version") in eras.STATELESS_VERSIONS:
                await send_error(send, 405, "this version of MCP has only POST here", headers={"allow": "POST"})
            case "GET":
                await self._get(scope, receive, send)
            case "DELETE":
                await self._delete(scope, send)
            case _:
                await send_error(send, 405, "use POST, GET or DELETE here", headers=_ALLOW)

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        accepts_json, accepts_stream = accepted_types(scope)
        if not (accepts_json or accepts_stream):
            await send_error(send, 406, "Accept must allow application/json or text/event-stream")
            return
        value: Any = None
        try:
            value = await read_json(receive)
            if scope["state"]["headers"].get(MOUNTED_BY_HEADER) == self._own_mark:
                raise RpcError(INVALID_REQUEST, _MOUNTED_ITSELF)
            if isinstance(value, list):
                jsonrpc.check_batch(value)
                await self._batch(value, scope, receive, send)
                return
            message = jsonrpc.message(value)
            is_stateless = message is not None and eras.is_stateless(message)
        except ClientLeft:
            return
        except RpcError as error:
            event(log, logging.INFO, "tool.request_parse_failed", message=error.message)
            await send_json(send, 400, jsonrpc.failure(jsonrpc.id_of(value), error))
            return
        if message is None:
            if value.get("id") == _ROOTS_ID and (session := self._session(scope, None)) is not None:
                self._take_roots(session, value.get("result"))
            await send_empty(send, 202)
            return
        version = header_text(scope, b"mcp-protocol-version")
        exchange = Exchange(scope, receive, send, accepts_json=accepts_json, accepts_stream=accepts_stream)
        if is_stateless or (version in eras.STATELESS_VERSIONS and message.method != "initialize"):
            await self._stateless(message, exchange, scope, receive, send)
        elif version is not None and version not in eras.HANDSHAKE_VERSIONS and message.method != "initialize":
            await send_json(send, 400, jsonrpc.failure(message.id, eras.unsupported_version(version)))
        else:
            await self._handshake(message, exchange, version, scope, send)

    async def _stateless(
        self, message: RpcMessage, exchange: Exchange, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if message.id is None:
            # Nothing that a stateless client could notify us of means anything: it cancels by closing the stream.
            await send_empty(send, 202)
            return
        try:
            envelope = eras.envelope(message, scope["headers"])
            if message.method == LISTEN:
                Filter(message)
                events = asked_event_form(query_value(scope, "events")) or event_form(envelope.client)
            tool = (
                self._gate.catalog.by_name.get(str(message.params.get("name")))
                if message.method == "tools/call"
                else None
            )
            if tool is not None and tool.header_arguments:
                eras.check_arguments(message, scope["headers"], tool.header_arguments)
        except RpcError as error:
            await send_json(send, eras.http_status(error), jsonrpc.failure(message.id, error))
            return
        if message.method == LISTEN:
            if not accepted_types(scope)[1]:
                await send_error(send, 406, f"the answer to {LISTEN} is a text/event-stream")
                return
            who = caller(scope, _TRANSPORT, client=envelope.client)
            scope["state"]["listener"] = lambda: who
            frames = listen(
                message,
                self._hub,
                lambda: self._gate.offers(who.access, "shell"),
                events,
                message_frame,
                is_rated=text_client(envelope.client) is not None,
            )
            await send_frames(frames, scope, receive, send)
            return
        who = caller(scope, _TRANSPORT, client=envelope.client)
        request = McpRequest(message, who, None, exchange.notify)
        await exchange.run(message.id, self._methods.answer(request))

    async def _handshake(
        self, message: RpcMessage, exchange: Exchange, version: str | None, scope: Scope, send: Send
    ) -> None:
        session: HttpSession | None = None
        if message.method == "initialize" and message.id is not None:
            session = self._sessions.open(principal(scope).owner)
            if session is None:
                await send_error(send, 503, "too many sessions are in use", headers={"retry-after": "5"})
                return
            exchange.headers["mcp-session-id"] = session.id
        else:
            session = self._session(scope, version)
            if session is None and header_text(scope, b"mcp-session-id") is not None:
                await _send_no_session(send, message.id)
                return
        # A request without a session is served too. Such a client only gets no events.
        conversation = session.conversation if session else Conversation(version or eras.HEADERLESS_VERSION)
        if message.id is None:
            if session is not None and message.method == "notifications/cancelled":
                _cancel(session, message)
            is_new = conversation.has_roots and message.method in _ROOTS_ARE_NEW
            if session is not None and is_new and not session.subscription.unsent:
                session.subscription.put_answer(message_frame(_ASK_ROOTS))
            await send_empty(send, 202)
            return
        connection = session.id if session else ""
        who = caller(scope, _TRANSPORT, client=conversation.client, connection=connection, root=conversation.root)
        request = McpRequest(message, who, conversation, exchange.notify)
        if session is None:
            await exchange.run(message.id, self._methods.answer(request))
            return
        session.who = who
        session.in_flight[message.id] = exchange
        exchange.replay = session.replay
        # Before the handshake is over, the version of the client is not known.
        exchange.primes = message.method != "initialize" and conversation.version >= _PRIMING_SINCE
        if not session.open_streams and exchange.takes_stream and session.subscription.withdraw(ToolsChanged()):
            # After an outage many clients do not open their own stream again.
            exchange.first = TOOLS_CHANGED
        try:
            await exchange.run(message.id, self._methods.answer(request))
        finally:
            session.in_flight.pop(message.id, None)
            session.used_at = time.monotonic()
            if message.method in ("initialize", "logging/setLevel"):
                self._sessions.remember(session)

    async def _batch(self, values: list[Any], scope: Scope, receive: Receive, send: Send) -> None:
        """Several messages in one array, as the protocol had it up to 2025-03-26."""
        version = header_text(scope, b"mcp-protocol-version")
        session = self._session(scope, version)
        if session is None and header_text(scope, b"mcp-session-id") is not None:
            await _send_no_session(send, None)
            return
        conversation = session.conversation if session else Conversation(version or eras.HEADERLESS_VERSION)
        if conversation.version not in eras.BATCH_VERSIONS:
            raise RpcError(INVALID_REQUEST, f"MCP {conversation.version} has no batches: send one message at a time")
        who = caller(scope, _TRANSPORT, client=conversation.client, connection="" if session is None else session.id)

        async def answer() -> WireAnswer:
            body = await self._methods.answer_batch(values, lambda message: McpRequest(message, who, conversation))
            return WireAnswer(body, 200 if body else 202)

        await Exchange(scope, receive, send).run(None, answer())

    async def _get(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not accepted_types(scope)[1]:
            await send_error(
                send, 406, "the answer to GET is a text/event-stream", "clients of MCP ask for it themselves"
            )
            return
        session = self._session(scope, header_text(scope, b"mcp-protocol-version"))
        if session is None:
            status = 400 if header_text(scope, b"mcp-session-id") is None else 404
            await send_error(send, status, "a GET here belongs to an open session", _OPEN_FIRST)
            return
        try:
            session.conversation.events = asked_event_form(query_value(scope, "events"))
            session.conversation.is_bridged = header(scope, BRIDGE_HEADER) is not None
        except RpcError as error:
            await send_error(send, 400, error.message)
            return
        session.open_streams += 1
        try:
            await self._stream(session, scope, receive, send)
        finally:
            session.open_streams -= 1
            if not session.open_streams:
                self._sessions.stream_ended(session)

    async def _stream(self, session: HttpSession, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the session's own stream, or the rest of the stream that `Last-Event-ID` names."""
        headers = {"mcp-session-id": session.id}
        stream, number = parse_event_id(header(scope, b"last-event-id") or b"") or ("", 0)
        if not is_of_request(stream):
            after = number if stream == session.stream else None
            access = caller(scope, _TRANSPORT).access
            frames = _session_frames(session, after, lambda: self._gate.offers(access, "shell"))
            await send_frames(frames, scope, receive, send, headers)
            return
        for exchange in session.in_flight.values():
            if exchange.stream == stream:
                await exchange.resume(number, scope, receive, send, headers)
                return
        if not session.replay.knows(stream):
            await send_error(send, 410, "what followed that event is no longer kept", "send the request again")
            return
        await send_frames(_replay_frames(session, stream, number), scope, receive, send, headers)

    async def _delete(self, scope: Scope, send: Send) -> None:
        session = self._session(scope, header_text(scope, b"mcp-protocol-version"))
        if session is None:
            status = 400 if header_text(scope, b"mcp-session-id") is None else 404
            await send_error(send, status, "there is no such session to end")
            return
        self._sessions.end(session)
        await send_empty(send, 204)

    def _take_roots(self, session: HttpSession, result: Any) -> None:
        """Remember the first folder that the client says it works in."""
        roots = result.get("roots") if isinstance(result, dict) else None
        uris = [each.get("uri") for each in roots if isinstance(each, dict)] if isinstance(roots, list) else []
        paths = (unquote(urlsplit(uri).path) for uri in uris if isinstance(uri, str) and uri.startswith("file:"))
        session.conversation.root = next(paths, "")[:_MOST_ROOT_CHARS]
        self._sessions.remember(session)

    def _session(self, scope: Scope, version: str | None) -> HttpSession | None:
        """The session that a request names; None if it names none, or none of this token."""
        session_id: bytes | None = scope["state"]["headers"].get(b"mcp-session-id")
        if session_id is None:
            return None
        spoken = version if version in eras.HANDSHAKE_VERSIONS else eras.LATEST_HANDSHAKE
        return self._sessions.find(session_id.decode("latin-1"), principal(scope).owner, spoken)


async def _send_no_session(send: Send, request_id: RequestId | None) -> None:
    error = RpcError(INVALID_REQUEST, f"Session not found; {_OPEN_FIRST}")
    await send_json(send, 404, jsonrpc.failure(request_id, error))


def _session_frames(session: HttpSession, after: int | None, may_hear: Condition) -> AsyncGenerator[bytes, None]:
    """The frames of a session's own stream. A second stream takes over from the first."""
    conversation, stream = session.conversation, session.stream
    session.subscription = session.subscription.hand_over(may_hear, lambda: conversation.is_before_a_model)
    first = b""
    if after is not None:
        # The owner may have taken the shell away from this client since.
        kept = [each for each in session.replay.after(stream, after) if may_hear() or not each.is_of_shell]
        first = b"".join(message_frame(each.message, event_id(stream, each.number)) for each in kept)
    elif conversation.version >= _PRIMING_SINCE:
        first = priming_frame(event_id(stream, session.said))

    def encode(event: Event) -> bytes | None:
        message = conversation.notification(event)
        if message is None:
            return None
        session.said += 1
        is_of_shell = isinstance(event, SessionOutput | SessionExit | Gap)
        session.replay.keep(stream, session.said, message, is_of_shell=is_of_shell)
        return message_frame(message, event_id(stream, session.said))

    return session.subscription.stream(encode, first)


async def _replay_frames(session: HttpSession, stream: str, after: int) -> AsyncGenerator[bytes, None]:
    for kept in list(session.replay.after(stream, after)):
        yield message_frame(kept.message, event_id(stream, kept.number))


def _cancel(session: HttpSession, message: RpcMessage) -> None:
    request_id = message.params.get("requestId")
    exchange = session.in_flight.get(request_id) if isinstance(request_id, str | int) else None
    if exchange is not None:
        exchange.cancel()


def accepted_types(scope: Scope) -> tuple[bool, bool]:
    """Whether the client reads JSON, and whether it reads a stream. One that does not say reads JSON.

    HTTP/1.0 has no streams, so a client that reads both gets JSON there, however long it takes.
    """
    accept: bytes = scope["state"]["headers"].get(b"accept", b"*/*").lower()
    takes_all = b"*/*" in accept
    json = takes_all or b"application/json" in accept or b"application/*" in accept
    stream = b"text/event-stream" in accept or (b"text/*" in accept and not takes_all)
    return json, stream and not (json and scope["http_version"] == "1.0")
