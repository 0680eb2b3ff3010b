"""Counts calls, and writes the counts in the text format of Prometheus.

During a call only plain numbers change; they become text when somebody reads /metrics. The labels are bounded: tools
that exist, codes and reasons from our code, rules from tools.json.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from mcp_agent.calls.call import Call, Failure, Outcome, Refusal, Success
from mcp_agent.calls.observers import CallObserver
from registry.catalog import Catalog
from tools.kit.records import mutable

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# The largest result in compact mode. Larger results are counted before they are cut.
LARGE_BYTES = 10_000
# An estimate: text for models has about four bytes a token. An exact count would cost more than the call.
BYTES_A_TOKEN = 4
_UNKNOWN = "unknown"
_OTHER = "other"
_MOST_RULES = 200
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_BYTES = (256.0, 1_024.0, 4_096.0, 10_000.0, 32_768.0, 102_400.0, 1_000_000.0)

Labels = tuple[tuple[str, str], ...]
Samples = Iterable[tuple[Labels, float]]


class Histogram:
    """Counts values by the smallest of `bounds` that they do not exceed."""

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """Each bound as Prometheus writes it, with the number of values up to it."""
        count = 0
        for bound, own in zip((*(f"{bound:g}" for bound in self.bounds), "+Inf"), self._counts, strict=True):
            count += own
            yield bound, count


@mutable
class _ToolCounts:
    """The counts of one tool."""

    by_code: dict[str, int] = field(default_factory=dict)
    seconds: Histogram = field(default_factory=lambda: Histogram(_SECONDS))
    result_bytes: Histogram = field(default_factory=lambda: Histogram(_BYTES))
    large: int = 0
    cut: int = 0
    # Bytes that were not sent, by the step that removed them.
    saved: dict[str, int] = field(default_factory=dict)


class Metrics(CallObserver):
    """What came of every call, by tool."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._by_tool: dict[str, _ToolCounts] = {}
        self._by_name: dict[str, _ToolCounts] = {}
        self._denied: dict[str, int] = {}

    def observe(self, call: Call, outcome: Outcome | None, took_s: float, result_bytes: int) -> None:
        counts = self._by_name.get(call.tool) or self._counts(call.tool)
        code = "CANCELLED" if outcome is None else outcome.code
        counts.by_code[code] = counts.by_code.get(code, 0) + 1
        counts.seconds.add(took_s)
        if outcome is None or isinstance(outcome, Refusal):
            return
        counts.result_bytes.add(result_bytes)
        whole = outcome.whole_bytes
        if (whole or result_bytes) > LARGE_BYTES:
            counts.large += 1
        if whole is not None:
            counts.cut += 1
            counts.saved["budget"] = counts.saved.get("budget", 0) + max(whole - result_bytes, 0)
        if isinstance(outcome, Success):
            pruning = outcome.result.pruning_metadata
            if pruning is not None and pruning.applied:
                gone = max(pruning.raw_bytes - (pruning.pruned_bytes or 0), 0)
                counts.saved["pruning"] = counts.saved.get("pruning", 0) + gone
        elif isinstance(outcome, Failure) and outcome.error.rule is not None:
            self._deny(outcome.error.rule)

    def render(self, further: Iterable[str] = ()) -> bytes:
        """All counts in the text format of Prometheus, followed by the lines of `further` metrics."""
        return ("\n".join([*self._lines(), *further]) + "\n").encode()

    def _counts(self, name: str) -> _ToolCounts:
        """The counts for a name on the wire. All names that no tool has share one entry."""
        tool = self._catalog.by_name.get(name)
        label = _UNKNOWN if tool is None else tool.name
        counts = self._by_tool.get(label)
        if counts is None:
            counts = self._by_tool[label] = _ToolCounts()
        if tool is not None:
            self._by_name[name] = counts
        return counts

    def _deny(self, rule: str) -> None:
        label = rule if rule in self._denied or len(self._denied) < _MOST_RULES else _OTHER
        self._denied[label] = self._denied.get(label, 0) + 1

    def _lines(self) -> Iterator[str]:
        tools = sorted(self._by_tool.items())
        yield from counter(
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
        yield from counter(
            "mcp_agent_large_results",
            f"Results of more than {LARGE_BYTES} bytes before anything was cut.",
            _by_tool((tool, each.large) for tool, each in tools),
        )
        yield from counter(
            "mcp_agent_cut_results",
            "Results that did not fit, were cut, and kept whole as artifacts.",
            _by_tool((tool, each.cut) for tool, each in tools),
        )
        saved = [
            ((("tool", tool), ("by", by)), count) for tool, each in tools for by, count in sorted(each.saved.items())
        ]
        yield from counter(
            "mcp_agent_saved_bytes", "Bytes that callers did not have to read, by what saved them.", saved
        )
        yield from counter(
            "mcp_agent_saved_tokens_estimated",
            f"The same in tokens, at {BYTES_A_TOKEN} bytes a token.",
            ((labels, count // BYTES_A_TOKEN) for labels, count in saved),
        )
        yield from counter(
            "mcp_agent_denied_calls",
            "Calls that a deny rule was against, by the id of the rule.",
            (((("rule", rule),), count) for rule, count in sorted(self._denied.items())),
        )


def counter(name: str, help_text: str, samples: Samples) -> Iterator[str]:
    """A counter; `name` is without its `_total`."""
    yield from _metric(f"{name}_total", "counter", help_text, samples)


def gauge(name: str, help_text: str, samples: Samples) -> Iterator[str]:
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
