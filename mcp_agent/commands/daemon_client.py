"""The daemon that is running already, as the commands of the same user reach it."""

from __future__ import annotations

import http.client
import os
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from mcp_agent import COMMAND_AGENT, __version__
from mcp_agent.config import BadConfig, Config
from mcp_agent.security import auth_tokens
from tools.kit.records import record

_TIMEOUT_S = 660.0
# A stream that is alive says so every fifteen seconds.
_SILENCE_S = 60.0


class NotReached(Exception):
    """The daemon's file is there and the daemon is not."""


@record
class RunningDaemon:
    url: str
    token: str
    config: str

    def request(
        self, method: str, path: str, body: Any = None, extra_headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and answer of one request. Raises NotReached."""
        connection = self._connection(_TIMEOUT_S)
        try:
            connection.request(
                method, path, None if body is None else orjson.dumps(body), self._headers(extra_headers or {})
            )
            answer = connection.getresponse()
            return answer.status, orjson.loads(answer.read() or b"null")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NotReached(str(error)) from None
        finally:
            connection.close()

    def events(self, path: str) -> Iterator[tuple[str, Any]]:
        """The named events of a stream, each with its data, until it ends. Raises NotReached and BadConfig."""
        connection = self._connection(_SILENCE_S)
        try:
            connection.request("GET", path, None, self._headers({"Accept": "text/event-stream"}))
            answer = connection.getresponse()
            if answer.status != 200:
                error = orjson.loads(answer.read())["error"]
                raise BadConfig(" ".join(part for part in (error["message"], error.get("hint")) if part))
            name = ""
            for line in answer:
                field, _, value = line.rstrip(b"\r\n").partition(b": ")
                if field == b"event":
                    name = value.decode()
                elif field == b"data":
                    yield name, orjson.loads(value)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NotReached(str(error)) from None
        finally:
            connection.close()

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        parts = urllib.parse.urlsplit(self.url)
        if parts.hostname is None:
            raise NotReached(self.url)
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(parts.hostname, parts.hostname)
        if parts.scheme == "https":
            import ssl

            # It is our own daemon, found through a file that only we can write: its name is not what proves it.
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)

    def _headers(self, further: Mapping[str, str]) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": f"{COMMAND_AGENT}{__version__}",
            **further,
        }


def find(config: Config) -> RunningDaemon | None:
    """The running daemon of this user and state folder; None if there is none."""
    told = _told(config)
    if told is None:
        return None
    token = os.environ.get(auth_tokens.VARIABLE)
    if token is None:
        try:
            token = auth_tokens.from_file(config.token_file)
        except auth_tokens.BadToken as error:
            raise BadConfig(str(error)) from None
    return RunningDaemon(told["url"], token, told["config"])


def address(config: Config) -> str | None:
    """Where the running daemon of this user and state folder listens; None if there is none."""
    told = _told(config)
    return None if told is None else told["url"]


def _told(config: Config) -> dict[str, str] | None:
    """What a running daemon says of itself in its file. Raises BadConfig if somebody else could have written it.

    The token is sent to where that file says.
    """
    path = config.runtime_file
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            told = orjson.loads(file.read())
        if status.st_mode & 0o022 or status.st_uid not in (os.geteuid(), path.parent.stat().st_uid):
            raise BadConfig(f"somebody else can write {path}, which says where the token is sent; delete it")
        os.kill(int(told["pid"]), 0)
        return {key: str(told[key]) for key in ("url", "config")}
    except (OSError, ValueError, KeyError, TypeError):
        return None
