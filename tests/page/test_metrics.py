"""/metrics, read by the official parser after real calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mcp_agent import __version__
from mcp_agent.calls.call import Call, Caller, Failure
from mcp_agent.calls.observers import EndedCall, Histogram, Metrics
from mcp_agent.page.metrics_page import call_metrics
from registry.catalog import discover
from registry.gate import Access, Gate
from registry.profiles import DEFAULT_PROFILE, SHIPPED, Profiles
from tests.support.daemon import Daemon
from tests.support.peers import WIRES
from tests.support.waiting import PATIENCE_S, eventually
from tools.kit.errors import Denied

_DENY = {"paths": [{"id": 'a "rule"\\ of mine', "pattern": ".env", "reason": "secrets"}]}


class Figures:
    """A scrape: every sample by its name and labels."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self._samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        return self._samples.get((name, frozenset(labels.items())))

    def labels(self, name: str) -> set[Mapping[str, str]]:
        return {labels for sample, labels in self._samples if sample == name}  # type: ignore[misc]  # hashable ones


async def _scraped(daemon: Daemon) -> Figures:
    async with daemon.http() as http:
        answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Figures(answer.text)


async def _call(daemon: Daemon, tool: str, **arguments: Any) -> Any:
    return await daemon.rpc("tools/call", name=tool, arguments=arguments)


async def test_calls_are_counted_by_tool_and_by_what_came_of_them(daemon: Daemon) -> None:
    (daemon.home / "x").write_text("hello")
    asked: list[dict[str, Any]] = [{"path": "x"}] * 3 + [{"path": "nowhere"}, {"wrong": 1}]
    read = [await _call(daemon, "fs_read", **arguments) for arguments in asked]
    sizes = [len(answer["result"]["content"][0]["text"].encode()) for answer in read]
    await _call(daemon, "read", wrong=1)
    for number in range(20):
        await _call(daemon, f"no-such-tool-{number}")
    figures = await _scraped(daemon)
    assert figures.value("mcp_agent_calls_total", tool="fs_read", code="ok") == 3
    assert figures.value("mcp_agent_calls_total", tool="fs_read", code="NOT_FOUND") == 1
    assert figures.value("mcp_agent_calls_total", tool="fs_read", code="INVALID_PARAMS") == 1
    assert figures.value("mcp_agent_calls_total", tool="read", code="REFUSED -32602") == 1
    assert figures.value("mcp_agent_calls_total", tool="unknown", code="REFUSED -32602") == 20
    assert figures.value("mcp_agent_call_duration_seconds_count", tool="fs_read") == 5
    assert figures.value("mcp_agent_call_duration_seconds_bucket", tool="fs_read", le="+Inf") == 5
    took_s = figures.value("mcp_agent_call_duration_seconds_sum", tool="fs_read")
    assert took_s is not None
    assert 0 < took_s < PATIENCE_S
    assert figures.value("mcp_agent_result_bytes_sum", tool="fs_read") == sum(sizes)
    small = len([size for size in sizes if size <= 256])
    assert figures.value("mcp_agent_result_bytes_bucket", tool="fs_read", le="256") == small
    assert {dict(labels)["tool"] for labels in figures.labels("mcp_agent_calls_total")} == {
        "fs_read",
        "read",
        "unknown",
    }


async def test_what_is_cut_and_what_is_pruned_is_counted_as_saved(daemon: Daemon) -> None:
    many = daemon.home / "many"
    many.mkdir()
    for number in range(9_000):
        (many / f"{number:04}-{'x' * 60}").touch()
    cut = await _call(daemon, "fs_list", path=str(many), max_entries=9_000)
    whole = cut["result"]["structuredContent"]["result_bytes"]
    (daemon.home / "long.txt").write_text(
        "\n".join(f"line {n} of nothing in particular" for n in range(500)) + "\nneedle"
    )
    pruned = await _call(daemon, "read", file_path="long.txt", context_focus_question="where is the needle?")
    metadata = pruned["result"]["structuredContent"]["pruning"]
    assert metadata["applied"]
    figures = await _scraped(daemon)
    assert figures.value("mcp_agent_cut_results_total", tool="fs_list") == 1
    assert figures.value("mcp_agent_large_results_total", tool="fs_list") == 1
    assert figures.value("mcp_agent_large_results_total", tool="read") == 0
    sent = figures.value("mcp_agent_result_bytes_sum", tool="fs_list")
    assert sent is not None
    saved = whole - sent
    assert figures.value("mcp_agent_saved_bytes_total", tool="fs_list", by="budget") == saved
    assert figures.value("mcp_agent_saved_tokens_estimated_total", tool="fs_list", by="budget") == saved // 4
    gone = metadata["raw_bytes"] - metadata["pruned_bytes"]
    assert figures.value("mcp_agent_saved_bytes_total", tool="read", by="pruning") == gone
    # A kept list has line breaks between its elements, up to a thousand, so that it can be searched.
    kept = figures.value("mcp_agent_artifacts_bytes")
    assert kept is not None
    assert whole <= kept <= whole + 1_001


async def test_denials_refusals_and_reloads_are_counted(daemon: Daemon) -> None:
    daemon.save({"profiles": [{"id": "default", "deny": _DENY}]})
    reloads = ("mcp_agent_registry_reloads_total", "ok")
    await eventually(lambda: _scraped(daemon), lambda scraped: scraped.value(reloads[0], result=reloads[1]) == 1)
    await _call(daemon, "fs_read", path=".env")
    daemon.save("{")
    await daemon.logged("registry.rejected")
    async with httpx2.AsyncClient(base_url=daemon.url) as stranger:
        assert (await stranger.get("/metrics")).status_code == 401
        assert (await stranger.get("/metrics", headers={"X-API-Key": "wrong-wrong"})).status_code == 401
    figures = await _scraped(daemon)
    assert figures.value("mcp_agent_denied_calls_total", rule='a "rule"\\ of mine') == 1
    assert figures.value("mcp_agent_registry_reloads_total", result="failed") == 1
    assert figures.value("mcp_agent_refused_logins_total", reason="no_token") == 1
    assert figures.value("mcp_agent_refused_logins_total", reason="wrong_token") == 1


async def test_sessions_and_clients_are_counted(daemon: Daemon) -> None:
    async with WIRES["mcp-handshake"](daemon) as peer, WIRES["sse"](daemon), daemon.http() as http:
        await peer.call("shell_start_session", command="sleep 60")
        ended = await peer.call("shell_start_session", command="true")
        await peer.call("shell_send_input", session_id=ended.object["session_id"], input="", wait_ms=10_000)
        async with http.stream("GET", "/events") as events:
            assert events.status_code == 200
            figures = await _scraped(daemon)
    assert figures.value("mcp_agent_sessions") == 1
    assert figures.value("mcp_agent_sessions_started_total") == 2
    for transport in ("http", "sse", "events"):
        assert figures.value("mcp_agent_clients", transport=transport) == 1, transport


async def test_a_gap_in_what_a_client_hears_is_counted(daemon: Daemon) -> None:
    async with daemon.http(**{"Last-Event-ID": "another-boot.7"}) as http, http.stream("GET", "/events") as events:
        async for line in events.aiter_lines():
            if line == "event: gap":
                break
    assert (await _scraped(daemon)).value("mcp_agent_gaps_total") == 1


async def test_the_page_says_what_runs_and_is_for_reading(daemon: Daemon) -> None:
    figures = await _scraped(daemon)
    (labels,) = figures.labels("mcp_agent_build_info")
    assert dict(labels)["version"] == __version__
    uptime = figures.value("mcp_agent_uptime_seconds")
    assert uptime is not None
    assert 0 < uptime < PATIENCE_S
    assert figures.value("mcp_agent_audit_lines_lost_total") == 0
    assert {family.type for family in figures.families.values()} == {"counter", "gauge", "histogram"}
    assert [family.name for family in figures.families.values() if not family.documentation] == []
    async with daemon.http() as http:
        assert (await http.post("/metrics", json={})).status_code == 405


def test_a_bound_counts_what_is_at_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 99.0):
        histogram.add(value)
    assert list(histogram.cumulative()) == [("1", 2), ("2", 4), ("+Inf", 5)]


@pytest.mark.parametrize("count", [1_000])
def test_names_and_rules_from_outside_cannot_grow_the_page(count: int) -> None:
    metrics = Metrics(Gate(discover(), Profiles(DEFAULT_PROFILE, SHIPPED)))
    caller = Caller("x", Access(), "rpc")
    for number in range(count):
        call = Call("1", caller, f"tool-{number}", {})
        metrics.observe(EndedCall(call, Failure(Denied("no", rule=f"rule-{number}"), b"{}"), 0.1, 10))
    lines = list(call_metrics(metrics))
    assert len([line for line in lines if line.startswith("mcp_agent_calls_total")]) == 1
    assert len([line for line in lines if line.startswith("mcp_agent_denied_calls_total")]) == 201
