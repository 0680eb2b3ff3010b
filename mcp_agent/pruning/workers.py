"""The engine's processes: started when first needed, one text at a time each, ended when they take too long."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson

import tools.pruning.engine
from mcp_agent.logs import event
from tools.pruning.engine import DroppedBlock, GaveUp, Selection, SourceType
from tools.records import record

log = logging.getLogger(__name__)

_PROGRAM = Path(tools.pruning.engine.__file__).with_name("worker.py")
_LENGTH_BYTES = 8
_MOST_AT_ONCE = 2
_START_S = 20.0
# The engine stops by itself when time is up; one that does not is ended this much later.
_LATE_S = 0.1


_ENVIRONMENT = {
    # One thread for arrays: more of them start slower than they help on texts of this size.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # Memory that is given back after every text is asked for again, page by page, with the next.
    "MALLOC_TRIM_THRESHOLD_": "16777216",
    "MALLOC_MMAP_THRESHOLD_": "16777216",
}


class Workers:
    """Chooses lines. At most two texts are read at once: the machine has other work."""

    def __init__(self) -> None:
        self._idle: list[_Worker] = []
        self._turns = asyncio.Semaphore(_MOST_AT_ONCE)

    async def select(
        self,
        text: str,
        question: str,
        *,
        source_type: SourceType | None,
        max_prune_ratio: float,
        min_keep_lines: int,
        timeout_s: float,
    ) -> Selection:
        """Raises GaveUp when time is up, which begins when a process has it, and RuntimeError if the engine failed."""
        request = {
            "question": question,
            "source_type": source_type,
            "max_prune_ratio": max_prune_ratio,
            "min_keep_lines": min_keep_lines,
            "timeout_s": timeout_s,
        }
        messages = (orjson.dumps(request), text.encode("utf-8", "surrogatepass"))
        async with self._turns:
            worker = self._idle.pop() if self._idle else await self._started()
            try:
                async with asyncio.timeout(timeout_s + _LATE_S):
                    answer = orjson.loads(await worker.asked(*messages))
            except TimeoutError:
                worker.end()
                raise GaveUp("the deadline passed while pruning") from None
            except (OSError, EOFError) as error:
                worker.end()
                raise RuntimeError(f"the pruning process is gone: {error}") from error
            except asyncio.CancelledError:
                worker.end()
                raise
            self._idle.append(worker)
        return _selection(answer)

    async def prepare(self) -> None:
        """Start a process now, for a server that exists to prune."""
        async with self._turns:
            if not self._idle:
                try:
                    self._idle.append(await self._started())
                except RuntimeError as error:
                    # Whoever asks first tries again, and is told.
                    event(log, logging.WARNING, "pruner.engine_failed", message=str(error))

    def close(self) -> None:
        while self._idle:
            self._idle.pop().end()

    async def _started(self) -> _Worker:
        try:
            async with asyncio.timeout(_START_S):
                return await _start()
        except (TimeoutError, OSError, EOFError) as error:
            raise RuntimeError(f"no pruning process could be started: {error}") from error


@record
class _Worker:
    process: subprocess.Popen[bytes]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def asked(self, *messages: bytes) -> bytes:
        for message in messages:
            self.writer.writelines((len(message).to_bytes(_LENGTH_BYTES, "big"), message))
        await self.writer.drain()
        return await self.heard()

    async def heard(self) -> bytes:
        length = int.from_bytes(await self.reader.readexactly(_LENGTH_BYTES), "big")
        return await self.reader.readexactly(length)

    def end(self) -> None:
        self.process.kill()
        # A killed process is gone in no time: waiting for it leaves no dead one behind.
        self.process.wait()
        with contextlib.suppress(RuntimeError):
            # After the loop is closed there is nothing left to close.
            self.writer.close()


async def _start() -> _Worker:
    ours, theirs = socket.socketpair()
    try:
        process = await asyncio.to_thread(_spawned, theirs)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    worker = _Worker(process, reader, writer)
    try:
        await worker.heard()
    except BaseException:
        worker.end()
        raise
    return worker


def _spawned(channel: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", str(_PROGRAM)],
        stdin=channel.fileno(),
        stdout=channel.fileno(),
        cwd="/",
        env={**os.environ, **_ENVIRONMENT},
        start_new_session=True,
    )


def _selection(answer: dict[str, Any]) -> Selection:
    if "gave_up" in answer:
        raise GaveUp(answer["gave_up"])
    if "failed" in answer:
        raise RuntimeError(answer["failed"])
    return Selection(
        dropped=tuple(DroppedBlock(**block) for block in answer["dropped"]),
        total_lines=answer["total_lines"],
        source_type=answer["source_type"],
        warnings=tuple(answer["warnings"]),
    )
