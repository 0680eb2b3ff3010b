"""A fleet for tests: members and gateways as real processes on a real nats-server."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from msgspec.structs import replace

from mcp_agent.fleet.bus import Bus, Message
from mcp_agent.fleet.messages import About, Beat, digest, encode, read_who
from tests.support.daemon import COMMAND, Daemon, environment
from tests.support.waiting import PATIENCE_S, eventually_sync


class FleetDaemon(Daemon):
    """A daemon whose state is not in the default place of its user: a machine may have several of them."""

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return super().cli(*arguments, "--state-dir", str(self.home / "state"))


@dataclass
class Program:
    """A member or a gateway that can be killed and started again in the same folders."""

    home: Path
    arguments: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None
    daemon: Daemon | None = None

    @property
    def running(self) -> Daemon:
        assert self.daemon is not None
        return self.daemon

    def start(self) -> Daemon:
        self.home.mkdir(parents=True, exist_ok=True)
        stderr = self.home / "daemon.stderr"
        with stderr.open("ab") as log:
            self.process = subprocess.Popen(
                [COMMAND, *self.arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(self.home),
                cwd=self.home,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it did not start: {stderr.read_text()}"
        ready = json.loads(line)
        token = Path(ready["token_file"]).read_text().strip()
        self.daemon = FleetDaemon(
            self.process, ready["url"] or "", token, self.home, self.home / "tools.json", ready, stderr
        )
        return self.daemon

    def kill(self) -> None:
        """End it at once, as a crash does."""
        if self.process is not None:
            self.process.kill()
            self._wait()

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self._wait()
            except subprocess.TimeoutExpired:
                self.kill()
                raise

    def _wait(self) -> None:
        assert self.process is not None
        self.process.wait(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None


class Fleet:
    """Starts members and gateways of one nats-server; `stop` ends all of them."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.programs: list[Program] = []

    def member(self, box: str, *arguments: str, labels: tuple[str, ...] = ()) -> Program:
        """A started member. Without other arguments it is reached by the fleet alone."""
        home = self.folder / box
        named = [word for label in labels for word in ("--label", label)]
        return self._start(
            home, "serve", "--fleet", self.url, "--box", box, *named, *(arguments or ("--no-listen",)), *_places(home)
        )

    def gateway(self, name: str = "gw", *arguments: str, boxes: int | None = None) -> Program:
        """A started gateway that has heard of every member, or of so many boxes."""
        home = self.folder / name
        members = sum(program.arguments[0] == "serve" for program in self.programs) if boxes is None else boxes
        program = self._start(
            home, "gateway", "--fleet", self.url, "--name", name, "--port", "0", *arguments, *_places(home)
        )
        daemon = program.daemon
        assert daemon is not None

        def count() -> int:
            answer = httpx2.post(f"{daemon.url}/tools/boxes", headers=daemon.headers, json={}, timeout=PATIENCE_S)
            return int(answer.json()["total"])

        eventually_sync(count, lambda total: total >= members)
        return program

    def stop(self) -> None:
        for program in reversed(self.programs):
            program.stop()

    def _start(self, home: Path, *arguments: str) -> Program:
        program = Program(home, arguments)
        program.start()
        self.programs.append(program)
        return program


@contextlib.contextmanager
def running_fleet(folder: Path, url: str) -> Iterator[Fleet]:
    fleet = Fleet(folder, url)
    try:
        yield fleet
    finally:
        fleet.stop()


async def call(daemon: Daemon, tool: str, **arguments: Any) -> dict[str, Any]:
    """The object that a tool gives, or its error, over OpenAPI."""
    async with daemon.http() as client:
        found: dict[str, Any] = (await client.post(f"/tools/{tool}", json=arguments)).json()
        return found


def _places(home: Path) -> tuple[str, ...]:
    return "--tools-file", str(home / "tools.json"), "--state-dir", str(home / "state")


class Swarm:
    """Many members that have the tools of a real daemon, speak the member's protocol, and run nothing."""

    def __init__(self, bus: Bus, count: int, tools: bytes) -> None:
        self._bus = bus
        self._tools = tools
        self.names = [f"box{number:04}" for number in range(count)]
        bus.serve("agent.*.who", self._serve_who)
        bus.serve("agent.who", self._serve_question)
        bus.on_connected = self.beat

    async def beat(self) -> None:
        for name in self.names:
            await self._bus.publish(f"agent.{name}.beat", encode(self._beat(name)))

    async def _serve_who(self, message: Message) -> None:
        has = read_who(message.data).has
        tools = None if digest(self._tools) in has else self._tools
        await message.respond(encode(replace(self._beat(message.subject.split(".")[1]), tools=tools)))

    async def _serve_question(self, message: Message) -> None:
        await self.beat()

    def _beat(self, name: str) -> Beat:
        labels = {"zone": f"z{int(name.removeprefix('box')) % 7}"}
        about = About(labels, "/srv", "0", name, digest(self._tools))
        return Beat(f"boot{name}", f"facts of {name}", 0.5, about=about)
