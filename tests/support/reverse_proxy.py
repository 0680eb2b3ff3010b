"""A proxy with TLS in front of a daemon, as Caddy or a tunnel is: it keeps the Host, and says how it was reached."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.certificate import self_signed


@dataclass
class ReverseProxy:
    """`url` is what the internet knows. `target` is set when the daemon behind it has started."""

    url: str
    certificate: Path
    target: str = ""
    # What it writes in the place of the Host of its clients.
    host: str | None = None

    @property
    def trusted(self) -> dict[str, str]:
        """The environment of a program that trusts its certificate."""
        path = str(self.certificate)
        return {"SSL_CERT_FILE": path, "NODE_EXTRA_CA_CERTS": path}

    def _carry(self, client: socket.socket, address: str) -> None:
        parts = urlsplit(self.target)
        with client, contextlib.suppress(OSError), socket.create_connection((parts.hostname, parts.port)) as server:
            head = b""
            while b"\r\n\r\n" not in head:
                if not (part := client.recv(65_536)):
                    return
                head += part
            head, _, rest = head.partition(b"\r\n\r\n")
            if self.host is not None:
                head = re.sub(rb"(?im)^host:.*$", b"Host: %s\r" % self.host.encode(), head)
            added = f"X-Forwarded-Proto: https\r\nX-Forwarded-For: {address}\r\nConnection: close".encode()
            head = re.sub(rb"(?im)^connection:.*\r\n", b"", head + b"\r\n")
            server.sendall(head + added + b"\r\n\r\n" + rest)
            threading.Thread(target=_pump, args=(client, server), daemon=True).start()
            _pump(server, client)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(65_536):
            sink.sendall(part)
        sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def reverse_proxy(folder: Path) -> Iterator[ReverseProxy]:
    self_signed(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = ReverseProxy(f"https://localhost:{listener.getsockname()[1]}", folder / "cert.pem")

    def accept() -> None:
        while True:
            try:
                plain, address = listener.accept()
            except OSError:
                return
            threading.Thread(target=shake_hands, args=(plain, address[0]), daemon=True).start()

    def shake_hands(plain: socket.socket, address: str) -> None:
        with contextlib.suppress(OSError):
            proxy._carry(context.wrap_socket(plain, server_side=True), address)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield proxy
    finally:
        listener.close()
