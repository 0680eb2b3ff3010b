"""The contract of `mcp-pruner`: where its six tools answer in another way than all others.

The tools themselves know nothing of it. Here, at the edge, their answers are translated:

- On every wire a failure of `read`, `bash` or `grep` has a code in lower case and says what was pruned.
- To the letter, in `mcp-pruner` and on /rpc, arguments are taken as they are sent; those that do not fit, and ranges
  that cannot be recovered, are JSON-RPC errors; a command with another exit code than 0 is a failure; a pruner keeps
  every error and knows of no room; and a result that the client puts in the place of its text is never cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from mcp_agent.calls.call import Caller, Refusal
from tools.context import FocusRequest
from tools.kit.errors import InvalidParams, ToolError
from tools.kit.results import Result
from tools.kit.spec import Tool
from tools.pruning.bash import BashOutput

INVALID_PARAMS = -32602
# Every handshake and every error of parameters names it.
SCHEMA_VERSION = {"schemaVersion": 1}
# Of the problems of a call, where results are kept short.
_ISSUES_BYTES = 6_000

# The codes of the three tools that read, by the code of the error.
_READING: Mapping[str, Mapping[str, str]] = {
    "read": {
        "NOT_FOUND": "not_found",
        "NOT_A_DIRECTORY": "not_found",
        "PERMISSION_DENIED": "permission_denied",
        "NOT_A_FILE": "invalid_path",
        "INVALID_PATH": "invalid_path",
        "IO_ERROR": "io_error",
    },
    "bash": {
        "NOT_FOUND": "invalid_cwd",
        "NOT_A_DIRECTORY": "invalid_cwd",
        "PERMISSION_DENIED": "invalid_cwd",
        "INVALID_PATH": "invalid_cwd",
        "DENIED": "spawn_error",
        "IO_ERROR": "spawn_error",
    },
    "grep": {
        "NOT_FOUND": "invalid_path",
        "NOT_A_DIRECTORY": "invalid_path",
        "PERMISSION_DENIED": "invalid_path",
        "INVALID_PATH": "invalid_path",
        "INVALID_PATTERN": "rg_error",
        "TIMEOUT": "timeout",
        "IO_ERROR": "spawn_error",
    },
}
# Any other hint names tools that are not among these.
_HINTS_SHOWN = frozenset(("DENIED", "INVALID_PATTERN"))
# ripgrep ends so for a pattern that it cannot use.
_RG_ERROR_EXIT = 2
# The errors of `recover_text` that have a number of their own.
_RECOVERY = {
    "NOT_FOUND": (-32004, "prune_id_not_found"),
    "OUT_OF_RANGE": (-32005, "invalid_range"),
}
_NAMES = frozenset((*_READING, "prune_text", "recover_text", "health"))
_NEVER_CUT = frozenset(("prune_text", "recover_text"))


class ContractError(ToolError):
    """A failure of `read`, `bash` or `grep`, as their contract has it."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        fields: Mapping[str, Any],
        exit_code: int | None = None,
        timeout_ms: int | None = None,
        rule: str | None = None,
    ) -> None:
        super().__init__(message, fields=fields)
        self.code = code
        self.rule = rule
        self.timeout_ms = timeout_ms
        self._exit_code = exit_code

    @property
    def facts(self) -> dict[str, Any]:
        facts = {"code": self.code, "message": self.message}
        return facts if self._exit_code is None else {**facts, "exit_code": self._exit_code}

    def as_object(self) -> dict[str, Any]:
        return {**self.fields, "error": self.facts}

    @property
    def is_text(self) -> bool:
        return any(self._streams())

    def render(self) -> str:
        return "\n".join([*self._head(), *filter(None, self._streams())])

    def _streams(self) -> Sequence[str]:
        return self.fields.get("stdout", ""), self.fields.get("stderr", "")


class Refused(Exception):
    """The call is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None, reason: str = "") -> None:
        super().__init__(message)
        self.refusal = Refusal(code, message, data, reason)


class Contract(Struct, frozen=True):
    """The contract of one call. This is that of most tools: nothing is translated."""

    tool: Tool
    # Whether the arguments that models write from habit are taken.
    takes_habits: bool
    # Whether the client replaces the text that it sent with the result.
    is_never_cut: bool = False

    def parse(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """The arguments for the function, and notes on what was taken for what. Raises InvalidParams, Refused."""
        return self.tool.parse_tolerantly(arguments, habits=self.takes_habits)

    def is_failure(self, result: Result) -> bool:
        """Whether a result is that of a command that failed."""
        return False

    def check(self, result: Result, arguments: Mapping[str, Any]) -> None:
        """Raise ContractError for a command that failed."""

    def error(self, error: ToolError, arguments: Mapping[str, Any]) -> ToolError | Refused:
        """What the call is answered with in the place of an error of the tool."""
        return error

    def focus_request(self, request: FocusRequest) -> FocusRequest:
        """What a pruner is asked for."""
        return request


class PruningContract(Contract, frozen=True):
    """That of the six tools on every wire."""

    def is_failure(self, result: Result) -> bool:
        return isinstance(result, BashOutput) and not result.running and result.timed_out

    def check(self, result: Result, arguments: Mapping[str, Any]) -> None:
        if not isinstance(result, BashOutput) or not self.is_failure(result):
            return
        fields = {"tool": self.tool.name, "stdout": result.stdout, "stderr": result.stderr}
        if result.timed_out:
            limit_ms = arguments["timeout_ms"]
            message = f"the command did not end within {limit_ms} ms, and was ended"
            raise ContractError("timeout", message, fields=fields, timeout_ms=limit_ms)
        message = f"the command ended with exit code {result.exit_code}"
        raise ContractError("nonzero_exit", message, fields=fields, exit_code=result.exit_code)

    def error(self, error: ToolError, arguments: Mapping[str, Any]) -> ToolError | Refused:
        code = _READING.get(self.tool.name, {}).get(error.code)
        if code is None:
            return error
        return ContractError(
            code,
            error.message_with_hint if error.code in _HINTS_SHOWN else error.message,
            fields={"tool": self.tool.name},
            exit_code=_RG_ERROR_EXIT if code == "rg_error" else None,
            timeout_ms=arguments["timeout_ms"] if code == "timeout" else None,
            rule=error.rule,
        )


class LiteralContract(PruningContract, frozen=True):
    """That of the six tools where it holds to the letter."""

    # Whether the profile keeps answers short.
    is_short: bool = False

    def parse(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        try:
            return self.tool.parse(arguments), []
        except InvalidParams as error:
            raise self._bad_arguments(error) from error

    def is_failure(self, result: Result) -> bool:
        return isinstance(result, BashOutput) and not result.running and (result.timed_out or bool(result.exit_code))

    def error(self, error: ToolError, arguments: Mapping[str, Any]) -> ToolError | Refused:
        if isinstance(error, InvalidParams):
            return self._bad_arguments(error)
        if self.tool.name == "recover_text" and error.code in _RECOVERY:
            number, name = _RECOVERY[error.code]
            hint = {} if error.hint is None else {"hint": error.hint}
            return Refused(number, name, {"code": name, **error.fields, **hint})
        return super().error(error, arguments)

    def focus_request(self, request: FocusRequest) -> FocusRequest:
        """It knows of one text, keeps every error, and no room."""
        return replace(request, more="", collapses=False, room_bytes=None)

    def _bad_arguments(self, error: InvalidParams) -> Refused:
        data = issues_data("tools/call", self.tool.name, error.issues)
        if self.is_short and (left_out := len(error.issues) - _fitting(error.issues, _ISSUES_BYTES)):
            data |= {"issues": error.issues[:-left_out], "issues_left_out": left_out}
        return Refused(INVALID_PARAMS, "Invalid params", data, error.message)


def contract_of(tool: Tool, caller: Caller, *, is_literal: bool, is_short: bool) -> Contract:
    """The contract of a call. On /rpc that of the six tools always holds to the letter."""
    if tool.name not in _NAMES or tool.category != "pruning" or tool.given_schema is not None:
        return Contract(tool, caller.is_on_mcp)
    is_on_rpc = caller.transport == "rpc"
    if not is_literal and not is_on_rpc:
        return PruningContract(tool, caller.is_on_mcp)
    return LiteralContract(tool, caller.is_on_mcp, is_on_rpc and tool.name in _NEVER_CUT, is_short)


def issues_data(method: str, tool: str | None, issues: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The data of the JSON-RPC error for parameters that do not fit."""
    named = {} if tool is None else {"tool": tool}
    return {"jeeves": SCHEMA_VERSION, "method": method, **named, "issues": list(issues)}


def _fitting(values: Sequence[Any], room: int) -> int:
    """How many elements from the start of a list fit in `room` bytes as JSON."""
    for index, value in enumerate(values):
        room -= len(orjson.dumps(value)) + 1
        if room < 0:
            return index
    return len(values)
