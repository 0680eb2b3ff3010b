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
from mcp_agent.fleet.nats_server import NatsServer, command_with_parent
from tools.files.disk import replace_file

BOXES = ("one", "two")
_GATEWAY = "main"
_READY_S = 60.0
_END_S = 15.0


class RunningTrial(Struct, frozen=True):
    """How the fleet is reached."""

    url: str
    token: str
    token_file: str
    nats: str


class Trial:
    """`start`, wait for what ends it, then `stop`, which leaves nothing behind."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._folder = Path(tempfile.mkdtemp(prefix="mcp-agent-fleet-"))
        self._keys = FleetKeys(self._folder / "keys")
        self._keys.create()
        self._nats = NatsServer(self._folder / "nats", self._keys.server_accounts())
        self._programs: dict[str, asyncio.subprocess.Process] = {}

    async def start(self) -> RunningTrial:
        """Raises FleetError if a part of it does not come up."""
        nats = await self._nats.start()
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
        waiting = {asyncio.create_task(self._nats.wait()): "nats-server"}
        waiting |= {asyncio.create_task(self._wait_for(program)): name for name, program in self._programs.items()}
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            name = waiting[done.pop()]
            return f"{name} has ended: {self._last_words(name)}"
        finally:
            for task in waiting:
                task.cancel()

    async def stop(self) -> None:
        await asyncio.gather(*(_end(program) for program in self._programs.values()))
        await self._nats.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _start(self, name: str, role: Role, nats: str, *arguments: str) -> bytes:
        """Start a daemon of the fleet, and give the line that it prints when it is ready."""
        home = self._folder / name
        work = home / "work"
        work.mkdir(parents=True)
        credentials = home / f"{name}.creds"
        replace_file(credentials, self._keys.invite(name, role, None).encode())
        if role == "member":
            (work / "hello.txt").write_text(f"This is the box {name}.\n")
        places = ("--state-dir", str(home / "state"), "--config", str(home / "tools.json"))
        command = [sys.executable, "-m", "mcp_agent", *arguments, "--fleet", nats, "--creds", str(credentials), *places]
        with (home / "stderr").open("wb") as stderr:
            program = await asyncio.create_subprocess_exec(
                # An orderly end, so that what they started ends, too.
                *command_with_parent(os.getpid(), command, signal.SIGTERM),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=work,
                env={key: value for key, value in os.environ.items() if not key.startswith("MCP_AGENT_")},
                start_new_session=True,
            )
        self._programs[name] = program
        assert program.stdout is not None
        line = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READY_S):
                line = await program.stdout.readline()
        if not line:
            raise FleetError(f"{name} did not start: {self._last_words(name)}")
        return line

    async def _wait_for(self, program: asyncio.subprocess.Process) -> None:
        await program.wait()

    def _last_words(self, name: str) -> str:
        file = self._folder / name / "stderr"
        lines: Sequence[str] = file.read_text("utf-8", "replace").strip().splitlines() if file.exists() else ()
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
