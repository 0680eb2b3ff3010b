"""The methods of MCP, each a plain function of a request. Knows both eras and no wire."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import orjson
from msgspec import Struct

from mcp_agent import __version__
from mcp_agent.answers.budget import MOST_MESSAGE_BYTES, needs_handshake, takes_claude_hints
from mcp_agent.answers.reply import Blocks
from mcp_agent.calls.call import Answer as ToolAnswer
from mcp_agent.calls.call import Call, Caller, Failure, Refusal, Success
from mcp_agent.calls.dispatcher import Dispatcher
from mcp_agent.events.types import Notice
from mcp_agent.process.logs import event
from mcp_agent.process.memory import exact_copy
from mcp_agent.protocol import eras, jsonrpc
from mcp_agent.protocol.conversation import LOG_LEVELS, Conversation, is_heard
from mcp_agent.protocol.instructions import LiveSession, instructions
from mcp_agent.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Payload,
    RpcError,
    RpcMessage,
    WireAnswer,
)
from mcp_agent.resources.resources import CannotBeRead, Prompts, Resources
from registry.gate import Gate
from tools.context import LogLevel
from tools.kit.errors import ApprovalPending
from tools.kit.results import Media
from tools.kit.spec import Tool

log = logging.getLogger(__name__)

SERVER_INFO = {"name": "mcp-agent", "title": "mcp-agent", "version": __version__}
# Claude Code takes longer results from a tool that says so, and hides a tool behind a search unless it says this.
_CLAUDE_HINTS = {"anthropic/maxResultSizeChars": 200_000, "anthropic/alwaysLoad": True}
_SERVER_META = {eras.META_SERVER: SERVER_INFO}
# The results of methods that have nothing to await.
_READY = (dict, orjson.Fragment)
_RESOURCE_NOT_FOUND = -32002
_LIST_TTL_MS = 1_000
# The state of a call that waits for approval: with it the client says which time it sends the call.
_APPROVAL_TURN = "approval:"
_MOST_WATCHED = 1_000
_MOST_COMPLETIONS = 100
# Kept free for each answer of a batch, so that it can at least say that the answer does not fit.
_EXCUSE_BYTES = 8_000
_CACHED = frozenset(
    ["server/discover", "tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list"]
)

Notify = Callable[[bytes], None]


class McpRequest(Struct, frozen=True):
    """One message and its sender. `conversation` is None in the era without handshakes."""

    message: RpcMessage
    caller: Caller
    conversation: Conversation | None
    notify: Notify | None = None


# Called when a client introduces itself: who it is, its version, and the version of the protocol.
OnConnect = Callable[[Caller, str, str], None]
Method = Callable[["Methods", McpRequest], Payload | Awaitable[Payload]]


class Methods:
    """Answers requests. One for all wires of a daemon.

    `lists_bounds`: the schemas of `tools/list` have every bound that an argument has; else those that a model can use.
    """

    lists_bounds: ClassVar[bool] = False

    def __init__(
        self,
        gate: Gate,
        dispatcher: Dispatcher,
        resources: Sequence[Resources],
        prompts: Sequence[Prompts],
        working_directory: Path | None,
        live_sessions: Callable[[], Sequence[LiveSession]] = tuple,
        on_connect: OnConnect = lambda caller, client_version, protocol: None,
    ) -> None:
        self._gate = gate
        self._dispatcher = dispatcher
        self._resources = resources
        self._prompts = prompts
        self._working_directory = working_directory
        self._live_sessions = live_sessions
        self._on_connect = on_connect
        self._tool_entries: dict[tuple[Tool, bool, bool], orjson.Fragment] = {}

    async def answer(self, request: McpRequest) -> WireAnswer:
        """The response to a request, as bytes. Never raises, except for cancellation."""
        message = request.message
        assert message.id is not None, "a notification is not answered"
        try:
            return WireAnswer(jsonrpc.response(message.id, await self.result(request)))
        except RpcError as error:
            status = eras.http_status(error) if request.conversation is None else 200
            return WireAnswer(jsonrpc.failure(message.id, error), status)
        except Exception:
            # A boundary: what nobody foresaw is logged here, and its text does not reach the wire.
            event(log, logging.ERROR, "tool.internal_error", exc=True, method=message.method)
            return WireAnswer(jsonrpc.failure(message.id, RpcError(INTERNAL_ERROR, "Internal error")))

    async def answer_batch(self, values: list[Any], request_of: Callable[[RpcMessage], McpRequest]) -> bytes:
        """The answers to several messages as one array; empty if none of them wants one."""
        answers: list[bytes] = []
        room = MOST_MESSAGE_BYTES - _EXCUSE_BYTES * len(values)
        for value in values:
            try:
                message = jsonrpc.message(value)
                if message is None or message.id is None:
                    continue
                answer = (await self.answer(request_of(message))).body
                if len(answer) > room:
                    raise RpcError(INTERNAL_ERROR, "the answer does not fit beside the others; ask for it alone")
                answers.append(answer)
                room -= len(answer)
            except RpcError as error:
                answers.append(jsonrpc.failure(jsonrpc.id_of(value), error))
        return b"[" + b",".join(answers) + b"]" if answers else b""

    async def result(self, request: McpRequest) -> Payload:
        """The result of a request. Raises RpcError."""
        method = request.message.method
        is_stateless = request.conversation is None
        function = (_STATELESS if is_stateless else _HANDSHAKE).get(method)
        if function is None:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:100]}")
        result = function(self, request)
        payload = result if isinstance(result, _READY) else await result
        if is_stateless and isinstance(payload, dict):
            payload = {"resultType": "complete", **payload, "_meta": _SERVER_META}
            if method in _CACHED:
                payload["ttlMs"] = _LIST_TTL_MS
                payload["cacheScope"] = "private"
        return payload

    def reading_error(self, error: RpcError) -> RpcError:
        """The error for a message that could not be read as a request. A program may have its own form for it."""
        return error

    def capabilities(self, request: McpRequest) -> dict[str, Any]:
        """What a client of either era may count on."""
        return {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": False},
            "prompts": {"listChanged": False},
            "completions": {},
            "logging": {},
        }

    def _initialize(self, request: McpRequest) -> Payload:
        assert request.conversation is not None, "initialize belongs to the era of handshakes"
        params = request.message.params
        if not isinstance(params.get("protocolVersion"), str):
            raise RpcError(INVALID_PARAMS, "initialize needs params.protocolVersion, a string")
        request.conversation.version = eras.negotiate_version(params["protocolVersion"])
        request.conversation.client = eras.client_name(params.get("clientInfo"))
        request.conversation.client_version = eras.client_version(params.get("clientInfo"))
        capabilities = params.get("capabilities")
        request.conversation.has_roots = isinstance(capabilities, dict) and isinstance(capabilities.get("roots"), dict)
        self._on_connect(
            request.caller.with_client(request.conversation.client),
            request.conversation.client_version,
            request.conversation.version,
        )
        return {
            "protocolVersion": request.conversation.version,
            "capabilities": self.capabilities(request),
            "serverInfo": SERVER_INFO,
            "instructions": self._instructions(request),
        }

    def _discover(self, request: McpRequest) -> Payload:
        if needs_handshake(request.caller.client):
            raise RpcError(
                METHOD_NOT_FOUND, "Method not found: server/discover; this client is served with a handshake"
            )
        meta = request.message.meta
        self._on_connect(request.caller, eras.client_version(meta.get(eras.META_CLIENT)), eras.STATELESS_VERSIONS[-1])
        return {
            "supportedVersions": [*eras.STATELESS_VERSIONS, *reversed(eras.HANDSHAKE_VERSIONS)],
            "capabilities": self.capabilities(request),
            "instructions": self._instructions(request),
        }

    def _instructions(self, request: McpRequest) -> str:
        caller = request.caller
        return instructions(
            self._gate,
            caller.access,
            self._working_directory,
            self._live_sessions(),
            names_folder=bool(caller.folder) or (request.conversation is not None and request.conversation.has_roots),
            is_child=caller.transport == "stdio",
        )

    def _ping(self, request: McpRequest) -> Payload:
        return {}

    def _tools_list(self, request: McpRequest) -> Payload:
        self._check_cursor(request)
        caller = request.caller
        has_meta = takes_claude_hints(caller.client)
        is_whole = self.lists_bounds or not caller.is_on_mcp
        return {"tools": [self._tool_entry(tool, has_meta, is_whole) for tool in self._gate.visible(caller.access)]}

    async def _tools_call(self, request: McpRequest) -> Payload:
        params = request.message.params
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "tools/call needs params.name, a string")
        if arguments is not None and not isinstance(arguments, dict):
            raise RpcError(INVALID_PARAMS, "params.arguments of tools/call must be an object")
        meta = request.message.meta
        report = _progress(request, meta["progressToken"]) if "progressToken" in meta else None
        # A stateless client that is told to go on waiting sends the call again by itself.
        turn = _turn(params.get("requestState")) if request.conversation is None else 0
        call = Call(new_call_id(), request.caller, name, arguments or {}, report, _log(request, meta), None, turn)
        outcome = await self._dispatcher.call(call)
        if isinstance(outcome, Failure) and isinstance(outcome.error, ApprovalPending) and outcome.error.next_round:
            return {"resultType": "input_required", "requestState": f"{_APPROVAL_TURN}{outcome.error.next_round}"}
        if isinstance(outcome, Refusal):
            raise RpcError(outcome.error_code, outcome.message, outcome.data)
        return tool_result(outcome)

    async def _health(self, request: McpRequest) -> Payload:
        """Older clients of the pruner ask by a method what the tool of that name says."""
        outcome = await self._dispatcher.call(Call(new_call_id(), request.caller, "health", {}))
        if not isinstance(outcome, Success | Failure):
            raise RpcError(METHOD_NOT_FOUND, "Method not found: health")
        return outcome.reply.as_object()

    def _resources_list(self, request: McpRequest) -> Payload:
        self._check_cursor(request)
        return {"resources": [entry for kind in self._resources for entry in kind.entries(request.caller)]}

    def _templates_list(self, request: McpRequest) -> Payload:
        self._check_cursor(request)
        caller = request.caller
        return {"resourceTemplates": [entry for kind in self._resources for entry in kind.templates(caller)]}

    async def _resources_read(self, request: McpRequest) -> Payload:
        uri = _uri(request)
        contents = await self.read_resource(request.caller, uri)
        if contents is not None:
            return {"contents": contents}
        # The era without handshakes has retired the code that the other one defines.
        code = INVALID_PARAMS if request.conversation is None else _RESOURCE_NOT_FOUND
        raise RpcError(code, f"Resource not found: {uri[:200]}", {"uri": uri[:200]})

    async def read_resource(self, caller: Caller, uri: str) -> list[dict[str, Any]] | None:
        """The contents of a resource; None if there is none for this caller."""
        for kind in self._resources:
            try:
                contents = await kind.read(caller, uri)
            except CannotBeRead as error:
                raise RpcError(INTERNAL_ERROR, str(error)) from None
            if contents is not None:
                return contents
        return None

    def _resources_subscribe(self, request: McpRequest) -> Payload:
        assert request.conversation is not None, "the other era subscribes with subscriptions/listen"
        if len(request.conversation.watched) >= _MOST_WATCHED:
            raise RpcError(INVALID_PARAMS, f"a client may watch {_MOST_WATCHED} resources")
        request.conversation.watched.add(_uri(request))
        return {}

    def _resources_unsubscribe(self, request: McpRequest) -> Payload:
        assert request.conversation is not None, "the other era subscribes with subscriptions/listen"
        request.conversation.watched.discard(_uri(request))
        return {}

    def _prompts_list(self, request: McpRequest) -> Payload:
        self._check_cursor(request)
        return {"prompts": [entry for some in self._prompts for entry in some.entries(request.caller)]}

    async def _prompts_get(self, request: McpRequest) -> Payload:
        name, arguments = request.message.params.get("name"), request.message.params.get("arguments") or {}
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "prompts/get needs params.name, a string")
        if not isinstance(arguments, dict) or not all(isinstance(value, str) for value in arguments.values()):
            raise RpcError(INVALID_PARAMS, "params.arguments of prompts/get must be an object of strings")
        caller = request.caller
        for some in self._prompts:
            entry = next((entry for entry in some.entries(caller) if entry["name"] == name), None)
            if entry is None:
                continue
            required = [each["name"] for each in entry.get("arguments", ()) if each.get("required")]
            if missing := [each for each in required if each not in arguments]:
                raise RpcError(INVALID_PARAMS, f"the prompt {name} needs {' and '.join(missing)} in params.arguments")
            try:
                prompt = await some.get(caller, name, arguments)
            except CannotBeRead as error:
                raise RpcError(INTERNAL_ERROR, str(error)) from None
            if prompt is not None:
                return prompt
        raise RpcError(INVALID_PARAMS, f"Unknown prompt: {name[:100]}")

    async def _complete(self, request: McpRequest) -> Payload:
        """What could be typed next, for an argument of a prompt or of a resource's template."""
        params = request.message.params
        ref, argument = params.get("ref"), params.get("argument")
        ref, argument = ref if isinstance(ref, dict) else {}, argument if isinstance(argument, dict) else {}
        name, value = argument.get("name"), argument.get("value")
        if not (isinstance(name, str) and isinstance(value, str)):
            raise RpcError(INVALID_PARAMS, "completion/complete needs params.argument with name and value, strings")
        match ref:
            case {"type": "ref/prompt", "name": str(target)}:
                providers: Sequence[Prompts | Resources] = self._prompts
            case {"type": "ref/resource", "uri": str(target)}:
                providers = self._resources
            case _:
                message = (
                    "completion/complete needs params.ref: a ref/prompt with its name or a ref/resource with its uri"
                )
                raise RpcError(INVALID_PARAMS, message)
        for provider in providers:
            values = await provider.completions(request.caller, target, name, value)
            if values is not None:
                shown = values[:_MOST_COMPLETIONS]
                return {"completion": {"values": shown, "total": len(values), "hasMore": len(shown) < len(values)}}
        raise RpcError(INVALID_PARAMS, f"{target[:200]} has no argument {name[:100]}")

    def _set_level(self, request: McpRequest) -> Payload:
        assert request.conversation is not None, "the other era sends its level with each request"
        level = request.message.params.get("level")
        if level not in LOG_LEVELS:
            raise RpcError(INVALID_PARAMS, f"params.level must be one of {', '.join(LOG_LEVELS)}")
        request.conversation.log_level = level
        return {}

    def _check_cursor(self, request: McpRequest) -> None:
        """Refuse a cursor: every list here has one page, so no client was given one (no pagination)."""
        if request.message.params.get("cursor") is not None:
            raise RpcError(INVALID_PARAMS, "params.cursor is not one of ours: this list has one page")

    def _tool_entry(self, tool: Tool, has_meta: bool, is_whole: bool) -> orjson.Fragment:
        key = tool, has_meta, is_whole
        entry = self._tool_entries.get(key)
        if entry is None:
            described = tool_entry(tool, is_whole=is_whole)
            if has_meta:
                described["_meta"] = _CLAUDE_HINTS
            entry = self._tool_entries[key] = orjson.Fragment(exact_copy(orjson.dumps(described)))
        return entry


def tool_result(outcome: ToolAnswer) -> dict[str, Any]:
    """The result of `tools/call`: what the dispatcher has written, in the envelope of MCP.

    Some clients show a model only `content`, some only `structuredContent`, and one appends the second where the two
    differ. So an object is sent as both, letter for letter the same. A rendering or a short result is sent alone.
    """
    written = outcome.written
    is_error = isinstance(outcome, Failure)
    if isinstance(written, bytes):
        return {
            "content": [{"type": "text", "text": written.decode()}],
            "structuredContent": orjson.Fragment(written),
            "isError": is_error,
        }
    if isinstance(written, Blocks):
        beside = {} if written.structured is None else {"structuredContent": orjson.Fragment(written.structured)}
        return {"content": orjson.Fragment(written.encoded), **beside, "isError": is_error}
    assert not isinstance(written, Media), "a caller on JSON-RPC takes no bare bytes"
    text = written if isinstance(written, str) else written.encoded.decode()
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def tool_entry(tool: Tool, *, is_whole: bool = False) -> dict[str, Any]:
    """A tool as `tools/list` shows it to models, or whole, as programs may want it."""
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema if is_whole else tool.listed_schema,
        "annotations": tool.annotations,
    }


def new_call_id() -> str:
    """A name to find a call by in the log. It is no secret, so it need not cost a call of the system."""
    return f"{random.getrandbits(48):012x}"


def _uri(request: McpRequest) -> str:
    uri = request.message.params.get("uri")
    if not isinstance(uri, str):
        raise RpcError(INVALID_PARAMS, f"{request.message.method} needs params.uri, a string")
    return uri


def _turn(state: Any) -> int:
    """Which time the client sends a call that waits for approval, from what it was given to send with it."""
    given = state.removeprefix(_APPROVAL_TURN) if isinstance(state, str) and state.startswith(_APPROVAL_TURN) else ""
    return int(given) if given.isdecimal() and given.isascii() and len(given) < 4 else 1


def _progress(request: McpRequest, token: Any) -> Callable[[float, float | None, str | None], None] | None:
    """The function that sends a tool's progress to this caller; None if it cannot be sent any."""
    notify = request.notify
    if notify is None or not jsonrpc.is_id(token):
        return None

    def report(done: float, total: float | None, message: str | None) -> None:
        params: dict[str, Any] = {"progressToken": token, "progress": done}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        notify(jsonrpc.notification("notifications/progress", params))

    return report


def _log(request: McpRequest, meta: Mapping[str, Any]) -> Callable[[LogLevel, str], None] | None:
    """The function that sends a tool's log messages to this caller. A stateless one that names no level gets none."""
    notify, conversation = request.notify, request.conversation
    asked: str = meta.get(eras.META_LOG_LEVEL, "")
    if notify is None or (conversation is None and asked not in LOG_LEVELS):
        return None

    def tell(level: LogLevel, text: str) -> None:
        if is_heard(level, asked) if conversation is None else conversation.hears_level(level):
            notify(jsonrpc.notification("notifications/message", Notice(level, text).as_object()))

    return tell


_BOTH: Mapping[str, Method] = {
    "tools/list": Methods._tools_list,
    "tools/call": Methods._tools_call,
    "resources/list": Methods._resources_list,
    "resources/templates/list": Methods._templates_list,
    "resources/read": Methods._resources_read,
    "prompts/list": Methods._prompts_list,
    "prompts/get": Methods._prompts_get,
    "completion/complete": Methods._complete,
}
_HANDSHAKE: Mapping[str, Method] = {
    **_BOTH,
    "initialize": Methods._initialize,
    "ping": Methods._ping,
    "health": Methods._health,
    "resources/subscribe": Methods._resources_subscribe,
    "resources/unsubscribe": Methods._resources_unsubscribe,
    "logging/setLevel": Methods._set_level,
}
_STATELESS: Mapping[str, Method] = {**_BOTH, "server/discover": Methods._discover}
