"""HTTP to a mounted server, with bounds on its answers that hold while they are read.

The official client reads an answer to its end, unpacks it and makes objects of it, however large it is. A stream of
events is not bounded here: the client bounds each event.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

from mcp_agent.protocol.jsonrpc import JsonTooLarge, check_size
from mcp_agent.upstream.process_transport import MOST_MESSAGE_BYTES


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Asks for answers that are not compressed, and takes no others: a few bytes unpack to as many as one likes."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"
        response = await super().handle_async_request(request)
        encoding = response.headers.pop("content-encoding", "identity")
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream), "it is the stream of an AsyncHTTPTransport"
        if encoding.strip().lower() != "identity":
            response.stream = _Answer(stream, f"it compressed its answer ({encoding[:40]}), which nobody asked it for")
        elif not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _Answer(stream)
        return response


class _Answer(httpx2.AsyncByteStream):
    """An answer in one piece, once it is known how large it is. With a `refusal` it is not read."""

    def __init__(self, stream: httpx2.AsyncByteStream, refusal: str = "") -> None:
        self._stream = stream
        self._refusal = refusal

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._refusal:
            raise httpx2.StreamError(self._refusal)
        data = bytearray()
        async for part in self._stream:
            data += part
            if len(data) > MOST_MESSAGE_BYTES:
                raise httpx2.StreamError(f"it answered with more than {MOST_MESSAGE_BYTES} bytes")
        whole = bytes(data)
        try:
            check_size(whole)
        except JsonTooLarge as error:
            raise httpx2.StreamError(f"its answer {error}") from None
        yield whole

    async def aclose(self) -> None:
        await self._stream.aclose()
