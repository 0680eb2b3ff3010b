"""HTTP by hand, for requests that no client library would send and answers that it would tidy up."""

from __future__ import annotations

import json
import socket
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.support.daemon import Daemon
from tests.support.waiting import PATIENCE_S

Headers = dict[str, str | bytes | list[str]]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    @property
    def object(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        found: str = self.object["error"]["message"]
        return found


def send(daemon: Daemon, data: bytes, tls: ssl.SSLContext | None = None) -> Answer:
    """The answer to these very bytes; the connection is read to its end."""
    parts = urlsplit(daemon.url)
    assert parts.hostname is not None
    with socket.create_connection((parts.hostname, parts.port or 0), PATIENCE_S) as plain:
        connection = plain if tls is None else tls.wrap_socket(plain, server_hostname=parts.hostname)
        with connection:
            connection.sendall(data)
            received = b""
            while chunk := connection.recv(65_536):
                received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(": ") for line in lines)
    return Answer(int(status.split()[1]), [(name.lower(), value) for name, _, value in pairs], body)


def request(
    daemon: Daemon, method: str = "GET", path: str | bytes = "/health", body: bytes = b"", **changed: Any
) -> Answer:
    """One request of the owner. `changed` headers: None leaves one out, a list sends it several times."""
    headers: dict[str, Any] = {
        "Host": urlsplit(daemon.url).netloc,
        "Authorization": f"Bearer {daemon.token}",
        "Accept": "application/json",
        "Connection": "close",
    }
    if body:
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    headers |= {name.replace("_", "-"): value for name, value in changed.items()}
    target = path if isinstance(path, bytes) else path.encode()
    lines = [method.encode() + b" " + target + b" HTTP/1.1"]
    for name, values in headers.items():
        for value in values if isinstance(values, list) else [values]:
            if value is not None:
                lines.append(name.encode() + b": " + (value if isinstance(value, bytes) else value.encode()))
    return send(daemon, b"\r\n".join(lines) + b"\r\n\r\n" + body)
