"""`mcp-agent doctor [URL]`: why a client does not connect, in plain words.

Clients tend to show one message for every failure. This asks the daemon the way they do, one step after the other,
and says of each what is wrong and what to do about it.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import sys
import time
import urllib.parse
from argparse import Namespace
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import asdict

from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.recent_activity import ADVICE, DOCTOR, refusals, seen_clients
from mcp_agent.cli.declaration import TOKENS, CommandReply, argument, command
from mcp_agent.config import Config, load, unknown_variables
from mcp_agent.process.extras import missing_extra
from mcp_agent.process.printing import Style, one_line, paint, progress, write_painted
from mcp_agent.security import auth_tokens
from mcp_agent.security.addresses import reachable_url
from mcp_agent.security.state_folder import mode_if_exposed
from registry.user_error import UsageError
from tools.files import disk
from tools.kit.results import quantity

_TIMEOUT_S = 10.0
# One client gives `tools/list` ten seconds; another gives a server three.
_SLOW_LIST_S = 3.0
_CLOCK_SKEW_S = 60.0
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": DOCTOR, "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Finding(Struct, frozen=True):
    """The result of one check. `advice` says what to do if it failed."""

    subject: str
    news: str
    advice: str | None = None
    is_fatal: bool = False
    # Worth a look, and not known to be wrong.
    is_note: bool = False

    @property
    def has_failed(self) -> bool:
        return self.advice is not None and not self.is_note


class _Answer(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: Any
    took_s: float


class _NoAnswer(Exception):
    """The answer was not HTTP, or there was none."""


class _Target:
    """The daemon that is checked. Every request uses a new connection."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urllib.parse.urlsplit(url if "//" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{url!r} is not the URL of a daemon; use one such as http://127.0.0.1:8765")
        self.scheme, self.host = parts.scheme, parts.hostname
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self.path = parts.path if parts.path not in ("", "/") else "/mcp"
        self.token = token

    def connection(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self.scheme == "https" else http.client.HTTPConnection
        return kind(self.host, self.port, timeout=_TIMEOUT_S)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> _Answer:
        """Raises _NoAnswer."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None:
            sent["Content-Type"] = "application/json"
            sent.setdefault("Accept", "application/json, text/event-stream")
        connection = self.connection()
        started = time.monotonic()
        try:
            connection.request(method, path, None if body is None else orjson.dumps(body), sent)
            answer = connection.getresponse()
            raw = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise _NoAnswer(_reason(error)) from error
        finally:
            connection.close()
        try:
            parsed = orjson.loads(raw) if raw else None
        except orjson.JSONDecodeError:
            parsed = None
        return _Answer(
            answer.status, {k.lower(): v for k, v in answer.getheaders()}, parsed, time.monotonic() - started
        )

    def rpc(self, method: str, **params: Any) -> _Answer:
        headers = {}
        if params.get("_meta") is not None:
            headers = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": method}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.ask("POST", self.path, message, **headers)


@command(
    "doctor",
    argument("url", nargs="?", metavar="URL", help="the daemon (default: the one that runs here)"),
    settings=TOKENS,
    examples=("mcp-agent doctor", "mcp-agent doctor https://devbox.example:8765 --token-file ~/devbox.token"),
)
def doctor(options: Namespace) -> CommandReply:
    """Connect to a daemon as clients do, and say what is wrong and what to do."""
    config = load(vars(options))
    url = options.url or daemon_client.address(config) or reachable_url(f"http://{config.host}:{config.port}")
    target = _Target(url, _token(config))
    print(f"checking {target.scheme}://{target.host}:{target.port}{target.path}")
    findings = []
    for finding in _findings(config, target):
        findings.append(finding)
        _print(finding)
    failed = sum(finding.has_failed for finding in findings)
    if any(finding.is_fatal for finding in findings):
        print("the remaining checks were skipped")
    else:
        print("all is well" if not failed else f"{failed} to correct")
    return CommandReply([{**asdict(finding), "ok": not finding.has_failed} for finding in findings], int(failed > 0))


def _findings(config: Config, target: _Target) -> Iterator[Finding]:
    for message in unknown_variables():
        yield Finding("variables", message, "correct its name, or unset it: it has no effect")
    is_reached = True
    for examine in (
        _check_network,
        _check_protocol,
        _check_host_name,
        _check_token,
        _check_handshake,
        _check_stateless,
        _check_sse,
        _check_state,
        _check_clock,
    ):
        with progress(f"waiting for {target.host}"):
            findings = list(examine(target))
        for finding in findings:
            yield finding
            is_reached = is_reached and not finding.is_fatal
        if not is_reached:
            break
    if target.host in ("127.0.0.1", "localhost", "::1"):
        if is_reached:
            yield from _check_folders(config)
            yield from _check_extras(config)
        yield from _recent_activity(config)


def _recent_activity(config: Config) -> Iterator[Finding]:
    """What the audit log of the daemon on this machine says of its clients."""
    try:
        refused, seen = refusals(config.audit_dir), seen_clients(config.audit_dir)
    except OSError as error:
        yield Finding("audit log", f"it cannot be read: {_reason(error)}", "run this as the user of the daemon")
        return
    for reason, (count, last) in refused.items():
        times = "once" if count == 1 else f"{count} times"
        news = f"refused {times} in the last hour: {reason.replace('_', ' ')}, lastly from {last}"
        yield Finding("refusals", news, ADVICE.get(reason, "look into the daemon's log"), is_note=True)
    if not refused:
        yield Finding("refusals", "nobody was refused in the last hour")
    for client in seen:
        yield Finding("client", client.describe())
    if not seen:
        yield Finding("clients", "none was seen in the last day")


def _check_network(target: _Target) -> Iterator[Finding]:
    try:
        with socket.create_connection((target.host, target.port), _TIMEOUT_S):
            yield Finding("network", f"{target.host} port {target.port} takes connections")
    except socket.gaierror:
        yield Finding(
            "network", f"the name {target.host} is not known here", "check the spelling, or use an address", True
        )
    except TimeoutError:
        advice = "a firewall drops it, or the machine is off; from a container, use host.docker.internal"
        yield Finding("network", f"nothing answers at {target.host} port {target.port}", advice, True)
    except ConnectionRefusedError:
        advice = (
            "start it with `mcp-agent serve`; to reach it from another machine or a container, with --host 0.0.0.0. "
            "Inside a container, localhost is the container itself: use host.docker.internal"
        )
        yield Finding("network", f"no program listens at {target.host} port {target.port}", advice, True)
    except OSError as error:
        yield Finding("network", f"{target.host} cannot be reached: {_reason(error)}", "check the address", True)


def _check_protocol(target: _Target) -> Iterator[Finding]:
    try:
        answer = target.ask("GET", "/health", Host=f"localhost:{target.port}")
    except _NoAnswer as error:
        if isinstance(error.__cause__, ssl.SSLError):
            reason = str(error.__cause__)
            if "CERTIFICATE_VERIFY_FAILED" in reason:
                advice = "the certificate is not trusted here; add it to the trusted ones of the client"
            else:
                advice = "it speaks plain HTTP; write http:// in the URL"
            yield Finding("protocol", f"no HTTPS there: {reason}", advice, True)
        else:
            advice = "another program may have the port; if the daemon was started with --tls-cert, write https://"
            yield Finding("protocol", f"what listens there does not answer HTTP: {error}", advice, True)
        return
    if isinstance(answer.body, dict) and "version" in answer.body:
        yield Finding("protocol", f"mcp-agent {answer.body['version']} answers, status {answer.body.get('status')}")
    elif answer.status == 401:
        yield Finding("protocol", "an HTTP server with our kind of guard answers")
    else:
        advice = "another program has that port: check the URL"
        yield Finding("protocol", f"what answers is not mcp-agent (status {answer.status})", advice, True)


def _check_host_name(target: _Target) -> Iterator[Finding]:
    answer = target.ask("GET", "/health")
    if answer.status == 421:
        advice = (answer.body or {}).get("error", {}).get("hint") or f"start it with --allow-host {target.host}"
        yield Finding("host name", f"it does not answer to the name {target.host}", advice, True)
    else:
        yield Finding("host name", f"it answers to the name {target.host}")


def _check_token(target: _Target) -> Iterator[Finding]:
    if target.token is None:
        advice = "pass --token-file, or set MCP_AGENT_TOKEN; `mcp-agent token show` on its machine prints the token"
        yield Finding("token", "no token is known here", advice, True)
        return
    answer = target.ask("GET", "/openapi.json")
    if answer.status == 401:
        advice = "take it from `mcp-agent token show` on its machine; it is sent as: Authorization: Bearer <token>"
        yield Finding("token", "the token is wrong", advice, True)
    elif answer.status != 200:
        yield Finding("token", f"unexpected answer {answer.status}", "look into the daemon's log", True)
    else:
        yield Finding("token", "the token is right")


def _check_handshake(target: _Target) -> Iterator[Finding]:
    info = {"name": DOCTOR, "version": "1"}
    answer = target.rpc("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
    result = answer.body.get("result") if isinstance(answer.body, dict) else None
    if result is None:
        advice = f"the URL should end in /mcp, not {target.path}; a proxy in between must pass POST and its headers"
        yield Finding("MCP 2025", f"initialize was answered with {answer.status}", advice)
        return
    yield Finding("MCP 2025", f"handshake settles on {result['protocolVersion']}")
    yield _check_list("MCP 2025", target.rpc("tools/list"))
    session = answer.headers.get("mcp-session-id")
    if session is not None:
        target.ask("DELETE", target.path, Mcp_Session_Id=session)


def _check_stateless(target: _Target) -> Iterator[Finding]:
    answer = target.rpc("server/discover", _meta=_META)
    result = answer.body.get("result") if isinstance(answer.body, dict) else None
    if result is None:
        advice = "a proxy in between must pass the headers MCP-Protocol-Version, Mcp-Method and Mcp-Name"
        yield Finding("MCP 2026", f"server/discover was answered with {answer.status}", advice)
        return
    yield Finding("MCP 2026", f"speaks {', '.join(result['supportedVersions'])}")
    yield _check_list("MCP 2026", target.rpc("tools/list", _meta=_META))


def _check_list(subject: str, answer: _Answer) -> Finding:
    tools = ((answer.body or {}).get("result") or {}).get("tools")
    if tools is None:
        return Finding(subject, f"tools/list was answered with {answer.status}", "look into the daemon's log")
    news = f"{len(tools)} tools, listed in {answer.took_s * 1000:.0f} ms"
    if not tools:
        return Finding(subject, news, "the profile shows no tools: see `mcp-agent profile show`")
    if answer.took_s > _SLOW_LIST_S:
        return Finding(
            subject, news, "clients give up after 3 to 10 seconds: is the machine or the network overloaded?"
        )
    return Finding(subject, news)


def _check_sse(target: _Target) -> Iterator[Finding]:
    """The 2024 stream: its first event must arrive at once; otherwise a proxy buffers streams."""
    connection = target.connection()
    try:
        connection.request(
            "GET", "/sse", headers={"Authorization": f"Bearer {target.token}", "Accept": "text/event-stream"}
        )
        answer = connection.getresponse()
        line = answer.readline() if answer.status == 200 else b""
        if line.startswith(b"event: endpoint"):
            yield Finding("SSE", "the stream opens and its first event comes at once")
        else:
            yield Finding("SSE", f"GET /sse was answered with {answer.status}", "a proxy in between must pass streams")
    except (OSError, http.client.HTTPException) as error:
        advice = "a proxy in between buffers the stream: switch its buffering off for this daemon"
        yield Finding("SSE", f"no event came within {_TIMEOUT_S:.0f} s ({_reason(error)})", advice)
    finally:
        connection.close()


def _check_state(target: _Target) -> Iterator[Finding]:
    """The state that the daemon reports to a client with a token."""
    health = target.ask("GET", "/health").body or {}
    registry = health.get("registry", {})
    errors = [problem for problem in registry.get("problems", []) if problem["severity"] == "error"]
    if errors:
        told = "; ".join(f"{problem['pointer'] or '/'}: {problem['message']}" for problem in errors)
        yield Finding("tools.json", f"the last good one is in force: {told}", f"correct {registry.get('path')}")
    elif registry:
        yield Finding("tools.json", f"{registry.get('path')} is in force, profile {registry.get('active_profile')}")
    engine = health.get("search", {}).get("engine")
    if engine is not None:
        slow = "install ripgrep: searches will be many times faster" if engine == "grep" else None
        yield Finding("search", f"files are searched with {engine}", slow)
    for name, mount in health.get("mounts", {}).items():
        if mount["state"] == "failed":
            advice = f"see what it printed with `mcp-agent mount list`; then: mcp-agent mount restart {name}"
            yield Finding("mount", f"{name} does not run: {mount.get('problem')}", advice)
        else:
            yield Finding("mount", f"{name} is {mount['state']}, {quantity(mount['tools'], 'tool')}")


def _check_clock(target: _Target) -> Iterator[Finding]:
    told = target.ask("GET", "/health").headers.get("date")
    if told is None:
        return
    skew_s = abs(parsedate_to_datetime(told).timestamp() - time.time())
    if skew_s > _CLOCK_SKEW_S:
        yield Finding(
            "clock", f"its clock and this one differ by {skew_s:.0f} s", "set the clock of one of the machines"
        )
    else:
        yield Finding("clock", "its clock and this one agree")


def _check_folders(config: Config) -> Iterator[Finding]:
    for path, private in ((config.state_dir, 0o700), (config.token_file, 0o600)):
        mode = mode_if_exposed(path)
        if mode is not None:
            yield Finding("files", f"others can access {path} ({mode:04o})", f"run: chmod {private:o} {path}")
        elif path.exists():
            yield Finding("files", f"{path} is closed to others")


def _check_extras(config: Config) -> Iterator[Finding]:
    """What of this installation is left out that somebody may miss."""
    install = missing_extra("images", "PIL")
    if install is not None:
        yield Finding("images", "images that are too large for a message are not scaled down", install, is_note=True)
    install = missing_extra("fleet", "nats") if config.fleet else None
    if install is not None:
        yield Finding("fleet", f"the fleet at {config.fleet} cannot be joined", install)


def _print(finding: Finding) -> None:
    word = "note" if finding.is_note else "FAIL" if finding.has_failed else "ok"
    style: Style = "yellow" if finding.is_note else "red" if finding.has_failed else "green"
    subject = paint(one_line(f"{finding.subject:10}"), "plain", sys.stdout)
    news = paint(one_line(finding.news), "plain", sys.stdout)
    write_painted(f"{paint(f'{word:4}', style, sys.stdout)}  {subject} {news}\n", sys.stdout)
    if finding.advice:
        print(f"      {'':10} → {one_line(finding.advice)}")
    sys.stdout.flush()


def _token(config: Config) -> str | None:
    token = os.environ.get(auth_tokens.VARIABLE)
    if token is not None or not config.token_file.exists():
        return token
    try:
        return auth_tokens.from_file(config.token_file)
    except auth_tokens.BadToken:
        # Its mode is one of the findings; here it is only read.
        return disk.read_small_file(config.token_file).decode("utf-8", "replace").strip()


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (text or type(error).__name__).lower()
