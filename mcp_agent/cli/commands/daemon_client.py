"""The client that our commands use to reach the running daemon of the same user."""

from __future__ import annotations

import http.client
import os
import urllib.parse
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct

from mcp_agent import COMMAND_AGENT, __version__
from mcp_agent.config import Config
from mcp_agent.process.runtime_file import running_daemon, runs_without_port
from mcp_agent.security import auth_tokens
from mcp_agent.security.addresses import reachable_here, reachable_url
from registry.user_error import UsageError, UserError

_TIMEOUT_S = 660.0
# A live stream sends a heartbeat every fifteen seconds.
_SILENCE_S = 60.0


class NoDaemon(UserError):
    """A command needs a daemon that can be asked, and there is none. `more` is what to say of that."""

    exit_code = 3

    def __init__(self, config: Config, more: str) -> None:
        if runs_without_port(config.runtime_file):
            super().__init__("the daemon that runs here has no port to be asked at (--no-listen); use its gateway")
        else:
            super().__init__(f"no daemon is running{more}; start one with: mcp-agent serve")


class NotReached(UserError):
    """The file with the daemon's address exists, but the daemon does not answer."""

    exit_code = 3

    def __init__(self, reason: str) -> None:
        super().__init__(f"the daemon cannot be reached: {reason}")


class RunningDaemon(Struct, frozen=True):
    url: str
    token: str
    config: str
    # Where the owner's token is; empty if it came from the environment.
    token_file: str

    @property
    def reachable_url(self) -> str:
        """Its address for a client on this machine."""
        return reachable_url(self.url)

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

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer to one request. Raises NotReached, and UserError if the daemon refuses it."""
        status, answer = self.request(method, path, body)
        if status != 200:
            raise _refusal(status, answer)
        return answer

    def events(self, path: str) -> Iterator[tuple[str, Any]]:
        """The named events of a stream, each with its data, until it ends. Raises NotReached and UserError."""
        connection = self._connection(_SILENCE_S)
        try:
            connection.request("GET", path, None, self._headers({"Accept": "text/event-stream"}))
            answer = connection.getresponse()
            if answer.status != 200:
                raise _refusal(answer.status, orjson.loads(answer.read()))
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
        host = reachable_here(parts.hostname)
        if parts.scheme == "https":
            import ssl

            # No host name to check: this is our own daemon, found through a file that only we can write.
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
    runtime = running_daemon(config.runtime_file)
    if runtime is None:
        return None
    token_file = runtime.token_file or ""
    token = auth_tokens.from_file(Path(token_file)) if token_file else os.environ.get(auth_tokens.VARIABLE)
    if not token:
        raise UserError(
            f"the running daemon, {runtime.url}, has its token from {auth_tokens.VARIABLE}; set that here, too"
        )
    return RunningDaemon(runtime.url, token, runtime.config, token_file)


def require(config: Config, more: str = "") -> RunningDaemon:
    """The running daemon. Raises NoDaemon with `more` if there is none."""
    daemon = find(config)
    if daemon is None:
        raise NoDaemon(config, more)
    return daemon


def find_by(options: Namespace, config: Config) -> RunningDaemon | None:
    """The running daemon that a command line is about; None if its `--tools-file` is not the daemon's."""
    daemon = find(config)
    is_other = daemon is not None and options.tools_file is not None and daemon.config != str(config.tools_file)
    return None if is_other else daemon


def registry_path(options: Namespace, config: Config) -> Path:
    """The tools.json that a command line is about: that of the running daemon, unless its `--tools-file` names one."""
    runtime = None if options.tools_file is not None else running_daemon(config.runtime_file)
    return config.tools_file if runtime is None else Path(runtime.config)


def address(config: Config) -> str | None:
    """Where a client here reaches the running daemon of this user and state folder; None if there is none."""
    runtime = running_daemon(config.runtime_file)
    return None if runtime is None else reachable_url(runtime.url)


def _refusal(status: int, answer: Any) -> UserError:
    """The error of an answer that is not 200, for the person who typed the command."""
    error = answer.get("error", {}) if isinstance(answer, dict) else {}
    hint = f" ({error['hint']})" if error.get("hint") else ""
    # What cannot be understood, names that do not exist, and a tools.json that cannot be used.
    kind = UsageError if status in (400, 404) or "problems" in error else UserError
    return kind(f"{error.get('message', f'the daemon answered {status}')}{hint}")
