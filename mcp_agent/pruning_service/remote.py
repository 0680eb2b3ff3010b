"""Client of a pruning service: it sends a text and a question over HTTP and receives the lines that matter.

We do not trust the service. Each request has one deadline for everything, the answer and its headers have a largest
size, redirects and the proxies of the environment are ignored, and a circuit breaker opens after three failures.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import orjson

from tools.kit.results import ErrorCode

if TYPE_CHECKING:
    import http.client

MOST_INPUT_BYTES = 4 * 1024 * 1024
_MOST_ANSWER_BYTES = 16 * 1024 * 1024
_MOST_REQUESTS = 8
_MOST_FAILURES = 3
_BREAKER_OPEN_S = 30.0
_NOT_ASKED = "the pruning service failed three times and is asked again half a minute later"
_INCOMPLETE = "the service closed the connection before its answer was complete"
_ANSWER_FIELDS = ("pruned_code", "content", "text")
GAP = re.compile(r"\s*\(filtered \d+ lines\)\s*")
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}


class PrunerFailed(Exception):
    """The service gave no usable answer. The message is for the person who runs the service."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.message = message


def shown_url(url: str) -> str:
    """The URL of a service as logs and `/health` show it: its query and its user may be keys."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class RemotePruner:
    """One service behind a circuit breaker: while `open_breaker` gives an error, it must not be asked."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self.url = url
        self._timeout_s = timeout_s
        self._failures = 0
        self._open_until = 0.0
        self._last_failure: PrunerFailed | None = None
        # Threads of its own: a service that hangs must not hold the threads that others need.
        self._threads = ThreadPoolExecutor(_MOST_REQUESTS, thread_name_prefix="pruning-service")

    @property
    def open_breaker(self) -> PrunerFailed | None:
        """Why the service is not asked now; None: it may be asked."""
        last = self._last_failure
        if last is None or time.monotonic() >= self._open_until:
            return None
        return PrunerFailed(last.code, f"{_NOT_ASKED}; the last failure: {last.message}")

    async def prune(self, code: str, query: str, is_line: Callable[[str], bool] | None = None) -> str:
        """What the service gives for `code` and `query`, whatever its length. Raises PrunerFailed.

        `is_line` says whether a line can be one of such a text at all.
        """
        try:
            answer = await self._post(orjson.dumps({"code": code, "query": query}))
            pruned = _text(answer)
            check(pruned, is_line)
        except PrunerFailed as error:
            self._failures += 1
            self._last_failure = error
            if self._failures >= _MOST_FAILURES:
                # Half-open afterwards: one more failure opens the breaker again.
                self._failures = _MOST_FAILURES - 1
                self._open_until = time.monotonic() + _BREAKER_OPEN_S
            raise
        self._failures = 0
        return pruned

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _post(self, body: bytes) -> bytes:
        request = _Request(self.url, body, self._timeout_s)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.get_running_loop().run_in_executor(self._threads, request.send)
        except TimeoutError:
            raise PrunerFailed("timeout", f"no answer within {self._timeout_s:g} s") from None
        except OSError as error:
            advice = "; PRUNER_URL=builtin uses the built-in engine" if isinstance(error, ConnectionError) else ""
            raise PrunerFailed("http_error", f"{type(error).__name__}: {error}"[:300] + advice) from error
        finally:
            # At the deadline, and when the call is cancelled, the thread still waits for the service.
            request.abort()


class _Request:
    """One POST on a connection of its own. A thread sends it; the event loop may abort it at any time."""

    def __init__(self, url: str, body: bytes, timeout_s: float) -> None:
        self._parts = urlsplit(url)
        self._body = body
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._is_aborted = False

    def send(self) -> bytes:
        """The body of the answer. Raises PrunerFailed and OSError."""
        # At the first request: the library takes 8 ms to load, and most daemons have no service.
        import http.client

        with contextlib.closing(self._connection()) as connection:
            connection.connect()
            # Kept, because the connection forgets its socket when the answer says `Connection: close`.
            self._socket = connection.sock
            if self._is_aborted:
                raise TimeoutError
            target = (self._parts.path or "/") + (f"?{self._parts.query}" if self._parts.query else "")
            connection.request("POST", target, self._body, _HEADERS)
            try:
                return _read_answer(connection.getresponse())
            except (http.client.IncompleteRead, http.client.RemoteDisconnected):
                raise PrunerFailed("http_error", _INCOMPLETE) from None
            except (http.client.BadStatusLine, http.client.UnknownProtocol) as error:
                raise PrunerFailed("http_error", f"the answer is not HTTP: {error}"[:300]) from None
            except http.client.HTTPException as error:
                # The library's limits: 100 headers, and 64 KiB for each.
                raise PrunerFailed("invalid_response", f"the headers are too large: {error}"[:300]) from None

    def abort(self) -> None:
        """Wake the thread if it waits for the service. After the answer this does nothing."""
        self._is_aborted = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                # Of the socket below TLS: a TLS socket's own shutdown is not safe while another thread reads.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _connection(self) -> http.client.HTTPConnection:
        import http.client

        host, port = self._parts.hostname, self._parts.port
        assert host is not None, "the settings were checked"
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=ssl.create_default_context())


def _read_answer(response: http.client.HTTPResponse) -> bytes:
    """The body of a complete answer with status 2xx. Raises PrunerFailed and OSError."""
    if not 200 <= response.status < 300:
        raise PrunerFailed("http_error", f"the service answered with status {response.status}")
    answer = response.read(_MOST_ANSWER_BYTES + 1)
    if len(answer) > _MOST_ANSWER_BYTES:
        raise PrunerFailed("invalid_response", f"the answer is larger than {_MOST_ANSWER_BYTES} bytes")
    if response.length:
        raise PrunerFailed("http_error", _INCOMPLETE)
    return answer


def check(pruned: str, is_line: Callable[[str], bool] | None) -> None:
    """Raise PrunerFailed for an answer with a line that `is_line` rejects; empty lines and marks of gaps are none."""
    if is_line is None:
        return
    lines = (line for line in pruned.split("\n") if line.strip() and not GAP.fullmatch(line))
    strange = next((line for line in lines if not is_line(line)), None)
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
