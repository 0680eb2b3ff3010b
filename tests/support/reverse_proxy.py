"""A proxy with TLS in front of a daemon, as Caddy or a tunnel is: it keeps the Host, and says how it was reached."""

from __future__ import annotations

import asyncio
import contextlib
import re
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

    async def _carry(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        parts = urlsplit(self.target)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await client.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n")
            if self.host is not None:
                head = re.sub(rb"(?im)^host:.*$", b"Host: %s\r" % self.host.encode(), head)
            address = answers.get_extra_info("peername")[0]
            added = f"X-Forwarded-Proto: https\r\nX-Forwarded-For: {address}\r\nConnection: close\r\n\r\n".encode()
            answer, server = await asyncio.open_connection(parts.hostname, parts.port)
            server.write(re.sub(rb"(?im)^connection:.*\r\n", b"", head) + added)
            rest = asyncio.create_task(_pump(client, server))
            await _pump(answer, answers)
            rest.cancel()
            server.close()
        answers.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await source.read(65_536):
            sink.write(part)
            await sink.drain()


@contextlib.contextmanager
def reverse_proxy(folder: Path) -> Iterator[ReverseProxy]:
    self_signed(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    proxy = ReverseProxy("", folder / "cert.pem")
    # On one loop: two threads that use one TLS connection at once break it.
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    serving = asyncio.start_server(proxy._carry, "127.0.0.1", 0, ssl=context, limit=1_000_000)
    server = asyncio.run_coroutine_threadsafe(serving, loop).result()
    proxy.url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end(server: asyncio.Server) -> None:
    server.close()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
