"""A Jupyter kernel of the box's own environment, which runs the cells of one notebook.

The daemon has no library for kernels: the interpreter that has one speaks with it, and with us in lines of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from mcp_agent.open_terminal.requests import TerminalRefusal
from tools.sessions.manager import SessionManager
from tools.sessions.output_log import Stream
from tools.sessions.process import Status
from tools.sessions.program import OwnProgram

_RUNNER = Path(__file__).with_name("kernel_runner.py")
_MOST_ANSWER_BYTES = 48 * 1024 * 1024
_LARGE_ANSWER_BYTES = 256 * 1024
_STDERR_CHARS = 2_000
_STARTS_WITHIN_S = 90.0
_INTERRUPT_S = 10.0
_GRACE_S = 2.0
_INTERRUPT = b'{"interrupt":true}\n'


class KernelEnded(Exception):
    """The kernel has ended, or was ended, before it had answered."""

    def __init__(self, message: str, outputs: list[dict[str, Any]] | None = None) -> None:
        super().__init__(message)
        self.outputs = outputs or []


class Kernel:
    """A kernel that runs. It does one cell at a time."""

    name: str
    _program: OwnProgram

    def __init__(self) -> None:
        self.is_busy = self.has_ended = False
        self._unfinished = bytearray()
        self._answers: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._interrupted = asyncio.Event()
        self._stderr = ""

    @classmethod
    async def start(cls, sessions: SessionManager, tag: str, folder: Path, name: str, language: str) -> Kernel:
        """The kernel `name` of the nearest environment that has kernels. Raises TerminalRefusal."""
        for python in interpreters(folder):
            kernel = cls()
            try:
                kernel._program = sessions.start_program(
                    tag,
                    (python, str(_RUNNER), name, language),
                    folder,
                    {},
                    on_output=kernel._on_output,
                    on_exit=kernel._on_exit,
                )
            except OSError:
                continue
            try:
                async with asyncio.timeout(_STARTS_WITHIN_S):
                    said = await kernel._answer()
            except (KernelEnded, TimeoutError):
                said = {}
            except BaseException:
                await kernel.end()
                raise
            if "ready" in said:
                kernel.name = said["ready"]
                return kernel
            await kernel.end()
            if "unknown" in said:
                raise TerminalRefusal(
                    400, f"{python} knows no kernel {name[:60]!r}; `jupyter kernelspec list` shows all"
                )
            if "missing" not in said:
                why = kernel._stderr.strip().rpartition("\n")[2] or said.get("failed") or "it gave no answer"
                raise TerminalRefusal(500, f"the kernel of {python} did not start: {why}")
        raise TerminalRefusal(
            501,
            "no Python here has a Jupyter kernel; this makes one in the notebook's folder: "
            "python3 -m venv .venv && .venv/bin/pip install ipykernel",
        )

    async def run(self, source: str, within_s: float) -> dict[str, Any]:
        """What a cell gives. It is interrupted after `within_s`, and when nobody waits for it. Raises KernelEnded."""
        self.is_busy = True
        running = asyncio.create_task(self._run(source, within_s))
        # One that nobody waits for any more has nobody to tell that its kernel ended.
        running.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self._interrupted.set()
            raise

    async def end(self) -> None:
        """End it and all that it has started."""
        self.has_ended = True
        await self._program.end(_GRACE_S)

    async def _run(self, source: str, within_s: float) -> dict[str, Any]:
        self._interrupted.clear()
        line = orjson.dumps({"source": source}) + b"\n"
        is_late = False
        try:
            if await self._program.child.write(line) < len(line):
                await self.end()
                raise KernelEnded("the kernel took no cell, so it was ended")
            answering = asyncio.create_task(self._answer())
            stopping = asyncio.create_task(self._interrupted.wait())
            await asyncio.wait((answering, stopping), timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if not answering.done():
                is_late = not self._interrupted.is_set()
                self._program.child.write_at_once(_INTERRUPT)
                await asyncio.wait((answering,), timeout=_INTERRUPT_S)
            if not answering.done():
                answering.cancel()
                await self.end()
                raise KernelEnded("the cell could not be interrupted, so its kernel was ended")
            answer = answering.result()
        finally:
            self.is_busy = False
        if "ended" in answer:
            raise KernelEnded(f"the kernel has ended with exit code {answer['ended']}", answer["outputs"])
        return {**answer, "is_late": is_late}

    async def _answer(self) -> dict[str, Any]:
        line = await self._answers.get()
        if line is None:
            raise KernelEnded("the kernel was stopped")
        if len(line) < _LARGE_ANSWER_BYTES:
            answer: dict[str, Any] = orjson.loads(line)
        else:
            answer = await asyncio.to_thread(orjson.loads, line)
        return answer

    def _on_output(self, stream: Stream, data: bytes) -> bool:
        if stream == "stderr":
            self._stderr = (self._stderr + data.decode("utf-8", "replace"))[-_STDERR_CHARS:]
            return True
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._answers.put_nowait(bytes(self._unfinished) + line)
            self._unfinished.clear()
        self._unfinished += rest
        if len(self._unfinished) > _MOST_ANSWER_BYTES:
            # Only what has taken the place of our own file says so much. It is not listened to any more.
            self._answers.put_nowait(None)
            return False
        return True

    def _on_exit(self, _: Status) -> None:
        self.has_ended = True
        self._answers.put_nowait(None)


def interpreters(folder: Path) -> Iterator[str]:
    """Where a kernel may be, first come first: environments of `folder` and of those above it, the PATH, our own."""
    seen = set()
    for python in (*_environments(folder), shutil.which("python3"), shutil.which("python"), sys.executable):
        if python and python not in seen:
            seen.add(python)
            yield python


def _environments(folder: Path) -> Iterator[str]:
    for each in (folder, *folder.parents):
        if not _is_trusted(each):
            return
        for name in (".venv", "venv"):
            python = each / name / "bin" / "python"
            if os.access(python, os.X_OK):
                yield str(python)


def _is_trusted(folder: Path) -> bool:
    """Whether nobody else could have put an interpreter there, as anybody can in /tmp."""
    with contextlib.suppress(OSError):
        status = folder.stat()
        return status.st_uid in (os.geteuid(), 0) and not status.st_mode & stat.S_IWOTH
    return False
