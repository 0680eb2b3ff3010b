"""Real nats-server processes for tests: one, or several as a cluster; killed and started again on the same port."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mcp_agent.fleet.trial import command_with_parent, find_nats_server
from tests.support.waiting import eventually_sync

# What a client says that is not let in. The server's own word is lost if it closes the connection early.
REFUSED = re.compile(r"authorization violation|expired|revoked|refuse the credentials", re.IGNORECASE)
# Not the shared generator, which others may seed.
_random = random.SystemRandom()


class NatsServer:
    """One server. `url` stays the same when it is stopped and started again."""

    def __init__(self, folder: Path, config: str = "", host: str | None = None) -> None:
        self.host = host or own_address()
        self.port = free_port(self.host)
        self.url = f"nats://{self.host}:{self.port}"
        self.log = folder / f"nats-{self.host}-{self.port}.log"
        self.config = folder / f"nats-{self.host}-{self.port}.conf"
        self.config.write_text(f"listen: {self.host}:{self.port}\n{config}\n")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [str(find_nats_server()), "-c", str(self.config), "-l", str(self.log)]
        self._process = subprocess.Popen(command_with_parent(os.getpid(), command))
        eventually_sync(self._is_ready)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, as a crash does; `start` brings it back."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def reload(self, config: str) -> None:
        """Another configuration while it runs."""
        self.config.write_text(f"listen: {self.host}:{self.port}\n{config}\n")
        before = self.log.read_text().count("Reloaded server configuration")
        self.signal(signal.SIGHUP)
        eventually_sync(lambda: self.log.read_text().count("Reloaded server configuration") > before)

    def cluster_size(self) -> int:
        """How many servers it names to its clients."""
        return len(self._greeting().get("connect_urls", ()))

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"nats-server ended: {self.log.read_text() if self.log.exists() else ''}"
        return bool(self._greeting())

    def _greeting(self) -> dict[str, Any]:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((self.host, self.port), 5) as connection,
            connection.makefile("rb") as lines,
        ):
            greeting: dict[str, Any] = json.loads(lines.readline().removeprefix(b"INFO ") or b"{}")
            return greeting
        return {}


@contextlib.contextmanager
def nats_server(folder: Path, config: str = "") -> Iterator[NatsServer]:
    """A running server; `config` is its configuration besides the address. Without one it authenticates nobody."""
    server = NatsServer(folder, config)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextlib.contextmanager
def nats_cluster(folder: Path, count: int = 3, config: str = "") -> Iterator[Sequence[NatsServer]]:
    """Several servers that are one cluster. A client that knows one learns of the others."""
    host = own_address()
    ports = [free_port(host) for _ in range(count)]
    routes = ", ".join(f"nats://{host}:{port}" for port in ports)
    servers = [
        NatsServer(
            folder,
            f"server_name: n{port}\ncluster {{ name: test, listen: {host}:{port}, routes: [{routes}] }}\n{config}",
            host,
        )
        for port in ports
    ]
    try:
        for server in servers:
            server.start()
        for server in servers:
            eventually_sync(server.cluster_size, lambda size: size == count)
        yield servers
    finally:
        for server in servers:
            server.kill()


def own_address() -> str:
    """A loopback address that no other test has: nobody takes a port of it while its server is down."""
    return f"127.{_random.randint(1, 254)}.{_random.randint(0, 254)}.{_random.randint(1, 254)}"


def free_port(host: str) -> int:
    """A port below those that the system gives to outgoing connections."""
    while True:
        port = _random.randint(10_000, 30_000)
        with contextlib.suppress(OSError), socket.socket() as trial:
            trial.bind((host, port))
            return port
