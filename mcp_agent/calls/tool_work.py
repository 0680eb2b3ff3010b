"""Work that a wire does in the name of a tool, where it needs a result in a form of its own: the bytes of a file, say.

The gate, the rules, the deadline and the observers are those of a call of that tool. Nothing is parsed or shaped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

from mcp_agent.calls.call import Call, Failure, Outcome, SharedContext, Success
from mcp_agent.calls.call_errors import internal_error, timeout_error
from mcp_agent.calls.deadlines import Deadlines
from mcp_agent.calls.observers import CallObserver, notify_all
from registry.gate import Gate
from tools.context import Cancelled, ToolContext
from tools.kit.errors import ToolError
from tools.kit.results import Result
from tools.kit.spec import Tool

_R = TypeVar("_R", bound=Result)


class ToolWork:
    def __init__(
        self, gate: Gate, context: SharedContext, threads: Executor, observers: Sequence[CallObserver]
    ) -> None:
        self._gate = gate
        self._context = context
        self._threads = threads
        self._observers = observers
        self._deadlines = Deadlines()

    async def run(self, call: Call, work: Callable[[ToolContext, Tool], _R]) -> _R:
        """Run `work` in a thread with all that the tool of `call` may use. Raises ToolError."""
        began = time.perf_counter()
        outcome: Outcome | None = None
        try:
            tool, grant = self._gate.admit(call.caller.access, call.tool)
            context = self._context.for_call(call, grant)
            working = asyncio.get_running_loop().run_in_executor(self._threads, work, context, tool)
            result = await self._deadlines.within(grant.deadline_s, context, working)
            outcome = Success(result, b"")
            return result
        except ToolError as error:
            outcome = Failure(error, b"")
            raise
        except TimeoutError:
            outcome = Failure(timeout_error(tool, grant), b"")
            raise outcome.error from None
        except (asyncio.CancelledError, Cancelled):
            raise asyncio.CancelledError from None
        except Exception as error:
            outcome = Failure(internal_error(call), b"")
            raise outcome.error from error
        finally:
            notify_all(self._observers, call, outcome, began)
