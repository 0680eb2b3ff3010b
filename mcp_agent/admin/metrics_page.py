"""/metrics: the daemon's metrics for Prometheus, for clients with a token."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Callable, Iterator, Mapping

from starlette.types import Receive, Scope, Send

from mcp_agent import __version__
from mcp_agent.calls.metrics import CONTENT_TYPE, Labels, Samples, counter, gauge
from mcp_agent.daemon import Daemon
from mcp_agent.transports.http import send_error

_NONE: Labels = ()


class MetricsPage:
    """The ASGI application behind /metrics. `clients` says for each wire how many are connected now."""

    def __init__(self, daemon: Daemon, clients: Mapping[str, Callable[[], int]]) -> None:
        self._daemon = daemon
        self._clients = clients

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await send_error(send, 405, "use GET here", headers={"allow": "GET"})
            return
        try:
            kept = [(_NONE, await asyncio.to_thread(self._daemon.artifacts.used_bytes))]
        except OSError:
            # No value is better than a wrong one.
            kept = []
        body = self._daemon.metrics.render(self._state(kept))
        headers = [(b"content-type", CONTENT_TYPE.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body if scope["method"] == "GET" else b""})

    def _state(self, kept: Samples) -> Iterator[str]:
        """The metrics that are not about calls."""
        daemon = self._daemon
        yield from counter(
            "mcp_agent_refused_logins",
            "Requests that the guard turned away, by reason.",
            (((("reason", reason),), count) for reason, count in sorted(daemon.refusals.counts.items())),
        )
        yield from gauge("mcp_agent_sessions", "Shell sessions that run.", [(_NONE, len(daemon.sessions.live))])
        yield from counter(
            "mcp_agent_sessions_started", "Shell sessions that were started.", [(_NONE, daemon.sessions.started_count)]
        )
        yield from gauge(
            "mcp_agent_clients",
            "Connected clients, by wire; stateless ones are connected only while they ask.",
            (((("transport", wire),), count()) for wire, count in self._clients.items()),
        )
        yield from counter(
            "mcp_agent_gaps",
            "Times that a client was told that it missed output of a session.",
            [(_NONE, daemon.hub.gaps)],
        )
        yield from counter(
            "mcp_agent_gap_bytes", "Bytes of output that clients missed.", [(_NONE, daemon.hub.gap_bytes)]
        )
        yield from counter(
            "mcp_agent_registry_reloads",
            "Changes of tools.json, by whether they are in force.",
            [((("result", "ok"),), daemon.reloads), ((("result", "failed"),), daemon.rejections)],
        )
        yield from counter(
            "mcp_agent_audit_lines_lost", "Lines that the audit log could not take.", [(_NONE, daemon.audit.lost_lines)]
        )
        yield from gauge("mcp_agent_artifacts_bytes", "Bytes of all artifacts that are kept.", kept)
        yield from gauge(
            "mcp_agent_uptime_seconds", "Since the start.", [(_NONE, round(time.time() - daemon.started_at, 3))]
        )
        build = (("version", __version__), ("python", platform.python_version()))
        yield from gauge("mcp_agent_build_info", "Always 1; the labels say what runs.", [(build, 1)])
