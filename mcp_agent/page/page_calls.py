"""Calls that a person makes on the Tools page: through the dispatcher, as every other call, and on record."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import orjson

from mcp_agent.calls.call import Call, Caller, Failure, Outcome, Page, Refusal, Success
from mcp_agent.calls.dispatcher import Dispatcher
from mcp_agent.page.endpoints import ApiRequest, BadRequest, Routes
from mcp_agent.protocol.methods import new_call_id
from mcp_agent.security.auth_tokens import OWNER, Tokens
from registry.gate import Access, Gate
from registry.profiles import Form
from tools.kit.llm_tokens import estimate_roughly

TRANSPORT = "page"
PROGRAM = "Tools page"
_MOST_SHOWN_CHARS = 200_000


class PageCalls:
    """Calls tools as the owner, under the active profile unless another one is to be tried."""

    def __init__(self, dispatcher: Dispatcher, gate: Gate, tokens: Tokens) -> None:
        self._dispatcher = dispatcher
        self._gate = gate
        self._tokens = tokens
        # The calls of the Try view that are under way, by the id that the page gave them.
        self._running: dict[str, asyncio.Task[Outcome]] = {}

    @property
    def routes(self) -> Routes:
        return {
            ("POST", "call"): self._call,
            ("POST", "try"): self._try,
            ("POST", "try/<id>/cancel"): self._cancel,
            ("GET", "try/tools"): self._list_tools,
        }

    async def run(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The result of a tool, as an object. Raises ToolError, and BadRequest if there is no such tool."""
        given = {name.removesuffix("_"): value for name, value in arguments.items() if value is not None}
        outcome = await self._dispatcher.call(_call(tool, given, Access(), "json"))
        if isinstance(outcome, Failure):
            raise outcome.error
        if not isinstance(outcome, Success):
            raise BadRequest(outcome.message if isinstance(outcome, Refusal) else "a cursor leads to no object")
        return outcome.reply.as_object()

    async def _call(self, request: ApiRequest) -> dict[str, Any]:
        return await self.run(request.text("tool"), **request.mapping("arguments"))

    async def _list_tools(self, request: ApiRequest) -> dict[str, Any]:
        access, _ = self._access(request.query.get("profile"), request.query.get("token"))
        return {
            "tools": [
                {
                    "name": tool.name,
                    "title": tool.title,
                    "category": tool.category,
                    "effect": tool.effect,
                    "description": tool.description,
                    "schema": tool.input_schema,
                }
                for tool in self._gate.visible(access)
            ]
        }

    async def _try(self, request: ApiRequest) -> dict[str, Any]:
        """Call a tool as a client with that profile or token would, and show the answer in every form."""
        access, form = self._access(request.optional_text("profile"), request.optional_text("token"))
        call = _call(request.text("tool"), request.mapping("arguments"), access, form)
        run_id = request.optional_text("id") or call.id
        begun = time.perf_counter()
        running = self._running[run_id] = asyncio.create_task(self._dispatcher.call(call))
        try:
            await asyncio.wait([running])
        finally:
            running.cancel()
            del self._running[run_id]
        took_ms = (time.perf_counter() - begun) * 1000
        if running.cancelled():
            return {"ok": False, "code": "CANCELLED", "ms": took_ms, "message": "You cancelled it.", "call": call.id}
        outcome = running.result()
        if isinstance(outcome, Refusal):
            return {"ok": False, "code": outcome.code, "ms": took_ms, "message": outcome.message, "call": call.id}
        return {
            "ok": not isinstance(outcome, Failure),
            "code": outcome.code,
            "ms": took_ms,
            "call": call.id,
            **_shown(outcome),
        }

    async def _cancel(self, request: ApiRequest) -> dict[str, Any]:
        running = self._running.get(request.named["id"])
        if running is None:
            raise BadRequest("that call is not under way", status=404)
        running.cancel()
        return {}

    def _access(self, profile: str | None, token: str | None) -> tuple[Access, Form]:
        """What a holder of the token, or a client with the profile, may use. Raises UnknownName, BadRequest."""
        if token:
            holder = next((each for each in self._tokens.principals if each.name == token), None)
            if holder is None:
                raise BadRequest(f"there is no token {token[:100]!r}", status=404)
            return Access(holder.profile), holder.form
        if profile:
            return Access(self._gate.profiles[profile].id), "auto"
        return Access(), "auto"


def _call(tool: str, arguments: dict[str, Any], access: Access, form: Form) -> Call:
    return Call(new_call_id(), Caller(OWNER, access, TRANSPORT, PROGRAM, form), tool, arguments)


def _shown(outcome: Outcome) -> dict[str, Any]:
    """Both forms of an answer, each with its size; what is very long is cut for the page and measured whole."""
    if isinstance(outcome, Page):
        forms = {"compact": outcome.written.encoded.decode()}
    elif isinstance(outcome, Success | Failure):
        value = outcome.reply.as_object()
        forms = {
            "text": outcome.reply.render(),
            "json": orjson.dumps(value, option=orjson.OPT_INDENT_2).decode("utf-8", "replace"),
        }
    else:
        forms = {}
    plain = {
        name: orjson.dumps(orjson.loads(text)).decode() if name == "json" else text for name, text in forms.items()
    }
    return {
        "forms": {name: text[:_MOST_SHOWN_CHARS] for name, text in forms.items()},
        "sizes": {
            name: {"bytes": len(text.encode("utf-8", "replace")), "tokens": estimate_roughly(text)}
            for name, text in plain.items()
        },
        "cut": any(len(text) > _MOST_SHOWN_CHARS for text in forms.values()),
        "whole_bytes": outcome.whole_bytes if isinstance(outcome, Success | Failure) else None,
    }
