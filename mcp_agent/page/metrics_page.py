"""/metrics: the daemon's metrics in the text format of Prometheus, for clients with a token."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from starlette.types import Receive, Scope, Send

from mcp_agent import __version__
from mcp_agent.calls.observers import LARGE_BYTES, Histogram, Metrics
from mcp_agent.daemon import Daemon
from mcp_agent.transports.http import send_error

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# An estimate: text for models has about four bytes a token. An exact count would cost more than the call.
BYTES_A_TOKEN = 4

Labels = tuple[tuple[str, str], ...]
Samples = Iterable[tuple[Labels, float]]
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
        lines = (*call_metrics(self._daemon.metrics), *self._state(kept), "")
        body = "\n".join(lines).encode()
        headers = [(b"content-type", CONTENT_TYPE.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body if scope["method"] == "GET" else b""})

    def _state(self, kept: Samples) -> Iterator[str]:
        """The metrics that are not about calls."""
        daemon = self._daemon
        yield from _counter(
            "mcp_agent_refused_logins",
            "Requests that the guard turned away, by reason.",
            (((("reason", reason),), count) for reason, count in sorted(daemon.refusals.counts.items())),
        )
        yield from _gauge("mcp_agent_sessions", "Shell sessions that run.", [(_NONE, len(daemon.sessions.live))])
        yield from _counter(
            "mcp_agent_sessions_started", "Shell sessions that were started.", [(_NONE, daemon.sessions.started_count)]
        )
        yield from _gauge(
            "mcp_agent_clients",
            "Connected clients, by wire; stateless ones are connected only while they ask.",
            (((("transport", wire),), count()) for wire, count in self._clients.items()),
        )
        yield from _counter(
            "mcp_agent_gaps",
            "Times that a client was told that it missed output of a session.",
            [(_NONE, daemon.hub.gaps)],
        )
        yield from _counter(
            "mcp_agent_gap_bytes", "Bytes of output that clients missed.", [(_NONE, daemon.hub.gap_bytes)]
        )
        yield from _counter(
            "mcp_agent_registry_reloads",
            "Changes of tools.json, by whether they are in force.",
            [((("result", "ok"),), daemon.reloads), ((("result", "failed"),), daemon.rejections)],
        )
        yield from _counter(
            "mcp_agent_audit_lines_lost", "Lines that the audit log could not take.", [(_NONE, daemon.audit.lost_lines)]
        )
        yield from _gauge("mcp_agent_artifacts_bytes", "Bytes of all artifacts that are kept.", kept)
        yield from _gauge(
            "mcp_agent_uptime_seconds", "Since the start.", [(_NONE, round(time.time() - daemon.started_at, 3))]
        )
        build = (("version", __version__), ("python", platform.python_version()))
        yield from _gauge("mcp_agent_build_info", "Always 1; the labels say what runs.", [(build, 1)])


def call_metrics(metrics: Metrics) -> Iterator[str]:
    """The metrics of calls, line by line."""
    tools = sorted(metrics.by_tool.items())
    yield from _counter(
        "mcp_agent_calls",
        "Calls of tools, by what came of them: ok or the code of the error.",
        (((("tool", tool), ("code", code)), count) for tool, each in tools for code, count in each.by_code.items()),
    )
    yield from _histogram(
        "mcp_agent_call_duration_seconds",
        "How long calls took, from the arrival of the call to its answer.",
        ((tool, each.seconds) for tool, each in tools),
    )
    yield from _histogram(
        "mcp_agent_result_bytes",
        "How large results were when they went out.",
        ((tool, each.result_bytes) for tool, each in tools),
    )
    yield from _counter(
        "mcp_agent_large_results",
        f"Results of more than {LARGE_BYTES} bytes before anything was cut.",
        _by_tool((tool, each.large) for tool, each in tools),
    )
    yield from _counter(
        "mcp_agent_cut_results",
        "Results that did not fit, were cut, and kept whole as artifacts.",
        _by_tool((tool, each.cut) for tool, each in tools),
    )
    saved = [((("tool", tool), ("by", by)), count) for tool, each in tools for by, count in sorted(each.saved.items())]
    yield from _counter("mcp_agent_saved_bytes", "Bytes that callers did not have to read, by what saved them.", saved)
    yield from _counter(
        "mcp_agent_saved_tokens_estimated",
        f"The same in tokens, at {BYTES_A_TOKEN} bytes a token.",
        ((labels, count // BYTES_A_TOKEN) for labels, count in saved),
    )
    yield from _counter(
        "mcp_agent_denied_calls",
        "Calls that a deny rule was against, by the id of the rule.",
        (((("rule", rule),), count) for rule, count in sorted(metrics.denied.items())),
    )


def _counter(name: str, help_text: str, samples: Samples) -> Iterator[str]:
    """A counter; `name` is without its `_total`."""
    yield from _metric(f"{name}_total", "counter", help_text, samples)


def _gauge(name: str, help_text: str, samples: Samples) -> Iterator[str]:
    yield from _metric(name, "gauge", help_text, samples)


def _metric(name: str, kind: str, help_text: str, samples: Samples) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        yield f"{name}{_labels(labels)} {_number(value)}"


def _histogram(name: str, help_text: str, series: Iterable[tuple[str, Histogram]]) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} histogram"
    for tool, histogram in series:
        own: Labels = (("tool", tool),)
        count = 0
        for bound, count in histogram.cumulative():
            yield f"{name}_bucket{_labels((*own, ('le', bound)))} {count}"
        yield f"{name}_sum{_labels(own)} {_number(histogram.total)}"
        yield f"{name}_count{_labels(own)} {count}"


def _by_tool(counts: Iterable[tuple[str, int]]) -> Samples:
    return (((("tool", tool),), count) for tool, count in counts)


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels) + "}"


_ESCAPES: Mapping[str, str] = {"\\": r"\\", '"': r"\"", "\n": r"\n"}


def _escape(value: str) -> str:
    return "".join(_ESCAPES.get(letter, letter) for letter in value.encode("utf-8", "replace").decode())


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
