"""A small HTTP client for the daemon of the same user: one connection a request, and bodies as they arrive.

The parser is the server's. Closing the connection, which leaving the block does, is how a request is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import urllib.parse
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httptools

from mcp_agent import FOLDER_HEADER

_READ_BYTES = 65_536


class NotSent(ConnectionError):
    """No connection: the request has reached nobody, and can be sent again."""


class Response:
    """The answer to a request. Its body may be read once. Raises OSError where the connection breaks."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._parser = httptools.HttpResponseParser(self)
        self._chunks: list[bytes] = []
        self._has_head = self._is_complete = False
        self.headers: dict[str, str] = {}
        self.status = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._has_head = True
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._chunks.append(body)

    def on_message_complete(self) -> None:
        self._is_complete = True

    async def read_head(self) -> None:
        while not self._has_head:
            await self._feed()

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            chunks, self._chunks = self._chunks, []
            for chunk in chunks:
                yield chunk
            if self._is_complete:
                return
            await self._feed()

    async def body(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def events(self) -> AsyncIterator[tuple[bytes, str]]:
        """The data and the id of each event of a stream."""
        rest, data, event_id = b"", [], ""
        async for chunk in self.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                field, _, value = line.rstrip(b"\r").partition(b":")
                value = value.removeprefix(b" ")
                if field == b"data":
                    data.append(value)
                elif field == b"id":
                    event_id = value.decode("latin-1")
                elif not field and not value and (data or event_id):
                    yield b"\n".join(data), event_id
                    data, event_id = [], ""

    async def _feed(self) -> None:
        data = await self._reader.read(_READ_BYTES)
        if not data:
            raise ConnectionError("the daemon has closed the connection")
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ConnectionError(f"the daemon's answer cannot be read: {error}") from None


def folder_headers(folder: Path | None = None) -> dict[str, str]:
    """Name the folder that the client works in: where it has started us, unless another is known. Over SSH, the home
    folder is nobody's choice."""
    try:
        folder = folder or Path.cwd()
    except OSError:
        return {}
    if "SSH_CONNECTION" in os.environ and folder == Path.home():
        return {}
    return {FOLDER_HEADER.decode(): urllib.parse.quote(os.fsencode(folder))}


@contextlib.asynccontextmanager
async def send(method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> AsyncIterator[Response]:
    """The response to a request, as soon as its head is there. Raises NotSent, OSError."""
    parts = urllib.parse.urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=_tls(parts.scheme))
    except OSError as error:
        raise NotSent(str(error)) from error
    try:
        fields = {"Host": parts.netloc, "Connection": "close", "Content-Length": str(len(body)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"{method} {parts.path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body)
        await writer.drain()
        response = Response(reader)
        await response.read_head()
        yield response
    finally:
        writer.close()


def _tls(scheme: str) -> ssl.SSLContext | None:
    if scheme != "https":
        return None

    # No certificate to check: the address comes from a file that only the user who started the daemon can write.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
