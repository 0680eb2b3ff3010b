"""A pool of engine processes: started on demand, one text at a time each, killed after their deadline."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import orjson

import tools.pruning.engine
from mcp_agent.process.logs import event
from tools.pruning.engine import DroppedBlock, GaveUp, Selection, SelectionRequest

log = logging.getLogger(__name__)

_PROGRAM = Path(tools.pruning.engine.__file__).with_name("worker.py")
_LENGTH_BYTES = 8
_PART_BYTES = 256 * 1024
_MOST_AT_ONCE = 2
_START_S = 20.0
# The engine checks the deadline itself; a process that misses it is killed this much later.
_LATE_S = 0.1
_T = TypeVar("_T")

_ENVIRONMENT = {
    # One thread for numpy: starting more costs more than they gain on texts of this size.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # Keep freed memory: otherwise each text pays for page faults again.
    "MALLOC_TRIM_THRESHOLD_": "16777216",
    "MALLOC_MMAP_THRESHOLD_": "16777216",
}


class WorkerPool:
    """At most two processes and two threads that use them, since the machine has other work."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="pruning")
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()

    def run(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        """Run a function in one of the threads of the pool."""
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    @contextmanager
    def borrow(self) -> Iterator[Worker]:
        """A process for the calling thread. Raises RuntimeError if none can be started."""
        worker = self._pop_idle() or _start_worker()
        self._busy.add(worker)
        try:
            yield worker
        finally:
            self._busy.remove(worker)
            # A process that still owes an answer would give it to the next request.
            if worker.is_free:
                self._idle.append(worker)
            else:
                worker.end()

    async def prepare(self) -> None:
        """Start a process now, for a server that exists to prune."""
        await self.run(self._start_one)

    def close(self) -> None:
        # A thread that waits for an answer gets an error.
        for worker in [*self._busy]:
            worker.process.kill()
        self._threads.shutdown(cancel_futures=True)
        while self._idle:
            self._idle.pop().end()

    def _pop_idle(self) -> Worker | None:
        """An idle process that is alive; those that have died are removed."""
        while True:
            try:
                worker = self._idle.pop()
            except IndexError:
                return None
            if worker.process.poll() is None:
                return worker
            worker.end()

    def _start_one(self) -> None:
        try:
            with self.borrow():
                pass
        except RuntimeError as error:
            # The first request tries again, and reports the error.
            event(log, logging.WARNING, "pruner.engine_failed", message=str(error))


class Worker:
    """A process with the engine and the socket to it. The methods block, so call them from a thread."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self.process = process
        self.is_free = True
        self._channel = channel
        self._until = time.monotonic() + _START_S

    def ask(self, text: str, request: SelectionRequest) -> None:
        """Send a request; `answer` receives the selection."""
        self.is_free = False
        self._until = time.monotonic() + request.timeout_s + _LATE_S
        head, body = msgspec.json.encode(request), text.encode("utf-8", "surrogatepass")
        lengths = len(head).to_bytes(_LENGTH_BYTES, "big"), len(body).to_bytes(_LENGTH_BYTES, "big")
        try:
            self._wait_at_most()
            # One call: otherwise the process would wake up for the first part and wait for the rest.
            self._channel.sendall(b"".join((lengths[0], head, lengths[1], body)))
        except OSError as error:
            raise _worker_error(error) from error

    def answer(self) -> Selection:
        """Receive the selection. Raises GaveUp after the `timeout_s` of the request, or RuntimeError on a failure."""
        try:
            answer = orjson.loads(self.receive())
        except (OSError, EOFError) as error:
            raise _worker_error(error) from error
        self.is_free = True
        if "gave_up" in answer:
            raise GaveUp(answer["gave_up"])
        if "failed" in answer:
            raise RuntimeError(answer["failed"])
        return Selection(
            dropped=tuple(DroppedBlock(**block) for block in answer["dropped"]),
            total_lines=answer["total_lines"],
            source_type=answer["source_type"],
            warnings=tuple(answer["warnings"]),
            has_matched=answer["has_matched"],
        )

    def receive(self) -> bytes:
        """Receive the next message; there is never more than one in transit."""
        data = b""
        while len(data) < _LENGTH_BYTES or len(data) < _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big"):
            self._wait_at_most()
            part = self._channel.recv(_PART_BYTES)
            if not part:
                raise EOFError("it ended")
            data += part
        return data[_LENGTH_BYTES:]

    def end(self) -> None:
        self.process.kill()
        # Reap it, so that no zombie is left. A killed process ends at once.
        self.process.wait()
        self._channel.close()

    def _wait_at_most(self) -> None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._channel.settimeout(left)


def _worker_error(error: OSError | EOFError) -> Exception:
    if isinstance(error, TimeoutError):
        return GaveUp("the deadline passed while pruning")
    return RuntimeError(f"the pruning process is gone: {error}")


def _start_worker() -> Worker:
    ours, theirs = socket.socketpair()
    worker: Worker | None = None
    try:
        with theirs:
            worker = Worker(_spawn(theirs), ours)
        worker.receive()
    except (OSError, EOFError) as error:
        if worker is not None:
            worker.end()
        ours.close()
        raise RuntimeError(f"no pruning process could be started: {error}") from error
    return worker


def _spawn(channel: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", str(_PROGRAM)],
        stdin=channel.fileno(),
        stdout=channel.fileno(),
        cwd="/",
        env={**os.environ, **_ENVIRONMENT},
        start_new_session=True,
    )
