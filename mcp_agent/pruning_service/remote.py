"""A pruning service reached over HTTP: a text and a question out, the lines that matter back.

The service is somebody else's. It has one deadline for everything, its answer has a largest size, it cannot send us
elsewhere, and after three failures it is left alone for half a minute. Nothing in the environment names a proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import httptools
import orjson

from tools.kit.focus import ErrorCode

MOST_INPUT_BYTES = 4 * 1024 * 1024
_MOST_ANSWER_BYTES = 16 * 1024 * 1024
_READ_BYTES = 64 * 1024
_FAILURES = 3
_REST_S = 30.0
_ANSWER_FIELDS = ("pruned_code", "content", "text")
GAP = re.compile(r"\s*\(filtered \d+ lines\)\s*")
# A question is seldom answered by fewer lines than this; an answer with fewer has lost something.
_FEWEST_LINES = 5
_FEWEST_SHARE = 0.1


class PrunerFailed(Exception):
    """The service gave no answer that can be used. The message is for whoever runs it."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.message = message


class RemotePruner:
    """One service. `is_resting` says that it has failed too often to be asked now."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self.url = url
        self._timeout_s = timeout_s
        self._failures = 0
        self._rests_until = 0.0

    @property
    def is_resting(self) -> bool:
        return time.monotonic() < self._rests_until

    async def pruned(self, code: str, query: str, is_line: Callable[[str], bool] | None = None) -> str:
        """What the service leaves of `code`, of lines that can be such. Raises PrunerFailed."""
        try:
            answer = await self._asked(orjson.dumps({"code": code, "query": query}))
            pruned = _text(answer)
            check(code, pruned, is_line)
        except PrunerFailed:
            self._failures += 1
            if self._failures >= _FAILURES:
                # One further failure after the rest is enough for the next one.
                self._failures = _FAILURES - 1
                self._rests_until = time.monotonic() + _REST_S
            raise
        self._failures = 0
        return pruned

    async def _asked(self, body: bytes) -> bytes:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await _posted(self.url, body)
        except TimeoutError:
            raise PrunerFailed("timeout", f"no answer within {self._timeout_s:g} s") from None
        except (OSError, EOFError, httptools.HttpParserError) as error:
            raise PrunerFailed("http_error", f"{type(error).__name__}: {error}"[:300]) from error


def check(code: str, pruned: str, is_line: Callable[[str], bool] | None = None) -> None:
    """Raise PrunerFailed for an answer that is no pruning of `code`.

    It is larger, or has next to nothing left, or a line that `is_line` knows cannot be one of such a text.
    """
    if len(pruned) > len(code):
        raise PrunerFailed("invalid_response", f"the answer is larger than the text ({len(pruned)} > {len(code)})")
    lines = sum(1 for line in code.split("\n") if line.strip())
    left = [line for line in pruned.split("\n") if line.strip() and not GAP.fullmatch(line)]
    fewest = min(_FEWEST_LINES, -int(-lines * _FEWEST_SHARE // 1))
    if len(left) < fewest:
        raise PrunerFailed("invalid_response", f"only {len(left)} of {lines} lines are left, which is too few")
    strange = next((line for line in left if is_line is not None and not is_line(line)), None)
    if strange is not None:
        raise PrunerFailed("invalid_response", f"the service sent a line that is no match: {strange[:80]!r}")


def _text(answer: bytes) -> str:
    try:
        value = orjson.loads(answer)
    except orjson.JSONDecodeError:
        raise PrunerFailed("invalid_response", "the answer is not JSON") from None
    if not isinstance(value, dict):
        raise PrunerFailed("invalid_response", "the answer is not a JSON object")
    if isinstance(problem := value.get("error_msg"), str) and problem:
        # Such a service answers 200 and sends the text back unchanged.
        raise PrunerFailed("invalid_response", f"the service says: {problem[:200]}")
    for name in _ANSWER_FIELDS:
        if isinstance(text := value.get(name), str):
            return text
    raise PrunerFailed("invalid_response", f"the answer has none of {', '.join(_ANSWER_FIELDS)}")


async def _posted(url: str, body: bytes) -> bytes:
    parts = urlsplit(url)
    assert parts.hostname is not None, "checked when the settings were read"
    is_tls = parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    context = await asyncio.to_thread(ssl.create_default_context) if is_tls else None
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        head = (
            f"POST {target} HTTP/1.1\r\nHost: {parts.netloc.rpartition('@')[2]}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nAccept: application/json\r\nAccept-Encoding: identity\r\n"
            "Connection: close\r\n\r\n"
        )
        writer.write(head.encode("ascii") + body)
        answer = _Answer()
        parser = httptools.HttpResponseParser(answer)
        while not answer.is_complete:
            data = await reader.read(_READ_BYTES)
            if not data:
                answer.ended()
                break
            # Headers count too: they are kept while they come, however long they are.
            answer.size += len(data)
            parser.feed_data(data)
            answer.check(parser.get_status_code() if answer.has_headers else None)
    finally:
        writer.close()
        with contextlib.suppress(OSError, asyncio.CancelledError):
            writer.transport.abort()
    return answer.body


class _Answer:
    """What httptools tells of a response, gathered."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self.has_headers = False
        self.is_complete = False
        self._has_length = False

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._has_length = True

    def on_headers_complete(self) -> None:
        self.has_headers = True

    def on_body(self, data: bytes) -> None:
        self.parts.append(data)

    def on_message_complete(self) -> None:
        self.is_complete = True

    def check(self, status: int | None) -> None:
        if status is not None and not 200 <= status < 300:
            raise PrunerFailed("http_error", f"the service answered with status {status}")
        if self.size > _MOST_ANSWER_BYTES:
            raise PrunerFailed("invalid_response", f"the answer is larger than {_MOST_ANSWER_BYTES} bytes")

    def ended(self) -> None:
        """The connection is closed: well if that is how the body ends, else too early."""
        if not self.has_headers or self._has_length:
            raise PrunerFailed("http_error", "the service closed the connection before its answer was complete")
