"""`/prune`, the wire of pruning services: `{code, query}` in, the lines that matter out."""

from __future__ import annotations

import asyncio
from typing import Annotated

import orjson
from starlette.types import Receive, Scope, Send

from mcp_agent.protocol.jsonrpc import RpcError, WireAnswer
from mcp_agent.pruning_service.host_pruner import FOCUS_KEEP_LINES
from mcp_agent.transports.exchange import Exchange
from mcp_agent.transports.http import ClientLeft, caller, read_json, send_error
from registry.gate import Gate, UnknownTool
from tools.context import Pruner
from tools.kit.errors import InvalidParams, ToolDisabled
from tools.kit.llm_tokens import estimate_roughly
from tools.kit.params import Field, Parameters
from tools.pruning.engine import GaveUp, Selection, SelectionRequest, SourceType

_TIMEOUT_S = 10.0


class Prune:
    """Answers as such a service does: what goes wrong is `error_msg`, beside the text as it was sent.

    The answer is as long as what is left of the text, also over the 1,000,000 bytes that our own messages keep to: a
    client puts it in the place of the text, and has no way to the rest of one that is cut.
    """

    def __init__(self, gate: Gate, pruner: Pruner) -> None:
        self._gate = gate
        self._pruner = pruner
        self._parameters = Parameters.of_function(_body_fields)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await send_error(send, 405, "use POST here", headers={"allow": "POST"})
            return
        try:
            self._gate.admit(caller(scope, "prune").access, "prune_text")
            value = await read_json(receive)
            # Clients of such services send more: settings of a model, such as a threshold.
            sent = value if isinstance(value, dict) else {}
            arguments = self._parameters.parse({name: sent[name] for name in self._parameters.names if name in sent})
        except ClientLeft:
            return
        except (ToolDisabled, UnknownTool) as error:
            await send_error(send, 403, str(error))
            return
        except RpcError as error:
            await send_error(send, 400, error.message)
            return
        except InvalidParams as error:
            await send_error(send, 422, error.message, "the body is a JSON object with code and query")
            return
        await Exchange(scope, receive, send).run(0, self._answer(**arguments))

    async def _answer(
        self,
        code: str,
        query: str,
        source_type: SourceType | None,
        max_prune_ratio: float | None,
        min_keep_lines: int,
    ) -> WireAnswer:
        if len(code) > self._pruner.max_input_chars:
            return await asyncio.to_thread(_service_answer, code, None, "input_too_large")
        try:
            request = SelectionRequest(
                question=query,
                source_type=source_type,
                max_prune_ratio=max_prune_ratio,
                min_keep_lines=min_keep_lines,
                timeout_s=_TIMEOUT_S,
                collapses=True,
            )
            selection = await self._pruner.select(code, request)
        except GaveUp:
            return await asyncio.to_thread(_service_answer, code, None, "timeout")
        except RuntimeError as error:
            return await asyncio.to_thread(_service_answer, code, None, f"internal_error: {error}")
        return await asyncio.to_thread(_service_answer, code, selection, None)


def _body_fields(
    *,
    code: str,
    query: str,
    source_type: SourceType | None = None,
    max_prune_ratio: Annotated[float | None, Field(minimum=0, maximum=1)] = None,
    min_keep_lines: Annotated[int, Field(minimum=0, maximum=1_000_000_000)] = FOCUS_KEEP_LINES,
) -> None:
    """The fields that are read from a body; only `query` and `code` are required."""


def _service_answer(code: str, selection: Selection | None, problem: str | None) -> WireAnswer:
    lines = code.split("\n")
    left: list[str] = []
    following = 0
    for block in selection.dropped if selection is not None else ():
        left += lines[following : block.start - 1]
        left.append(f"(filtered {block.line_count} lines)")
        following = block.end
    left += lines[following:]
    pruned = "\n".join(left)
    kept = list(range(1, len(lines) + 1)) if selection is None else list(selection.kept())
    if lines[-1] == "":
        # What follows a final newline is no line to such a service, and is always kept.
        kept.pop()
    value = {
        "pruned_code": pruned,
        "kept_frags": kept,
        "origin_token_cnt": estimate_roughly(code),
        "left_token_cnt": estimate_roughly(pruned),
        # Clients ask for what a model would have said, and there is none here.
        "score": 0.0,
        "token_scores": [],
        "model_input_token_cnt": 0,
        "error_msg": problem,
    }
    return WireAnswer(orjson.dumps(value))
