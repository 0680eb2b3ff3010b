"""Adding a tool is one file: what the host does with a tool, the tool declares."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from mcp_agent.answers.reply import Compact
from mcp_agent.app import compose_daemon
from mcp_agent.calls.call import Call, Caller, Failure, Outcome, Success
from mcp_agent.cli.reference import pages
from mcp_agent.config import load
from mcp_agent.daemon import Daemon
from registry.catalog import Catalog, discover
from registry.gate import Access
from tests.support.small_catalog import parse
from tools.kit.errors import ToolDisabled
from tools.kit.results import Result

_MODULE = '''
from __future__ import annotations

from typing import Annotated, Any

from tools.context import ToolContext
from tools.kit.params import Field
from tools.kit.results import Body, Result
from tools.kit.spec import tool


class Forecast(Result, frozen=True):
    given: list[str]
    report: str

    @property
    def body(self) -> Body:
        return Body("report")

    def render(self) -> str:
        return self.report


def _report() -> str:
    return "\\n".join(f"hour {hour}: {'a storm' if hour == 42 else 'the sun'} over the bay" for hour in range(400))


@tool("weather", effect="read", focus="allowed")
def forecast(
    ctx: ToolContext, *, city: Annotated[str, Field(description="Which city.", audited=True)], note: str = ""
) -> Forecast:
    """Tell the weather hour by hour."""
    return Forecast(["city", "note"], _report())


@tool("weather", effect="read", focus="allowed", schema={"type": "object", "properties": {"city": {"type": "string"}}})
def mounted_forecast(ctx: ToolContext, **arguments: Any) -> Forecast:
    """The same, as somebody else describes it."""
    return Forecast(sorted(arguments), _report())
'''
_QUESTION = "when is there a storm?"


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """Our own tools, and those of a package with one module."""
    package = tmp_path / "packages" / "weather_tools"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "forecast.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(package.parent)
    for name in ("weather_tools", "weather_tools.forecast"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return Catalog([*discover().tools, *discover(importlib.import_module("weather_tools")).tools])


@pytest.fixture
async def daemon(tmp_path: Path, catalog: Catalog) -> AsyncIterator[Daemon]:
    flags = {"state_dir": str(tmp_path / "state"), "tools_file": str(tmp_path / "tools.json")}
    started = compose_daemon(load({"command_undo": False, **flags}, {}), catalog, tmp_path)
    yield started
    await started.stop(0.5)
    started.close()


async def _call(daemon: Daemon, tool: str, profile: str | None = None, **arguments: object) -> Outcome:
    return await daemon.dispatcher.call(Call("test", Caller("owner", Access(profile), "rpc"), tool, arguments))


def _audited(daemon: Daemon) -> dict[str, object]:
    """The newest line of the audit log."""
    line: dict[str, object] = json.loads((daemon.config.audit_dir / "audit.jsonl").read_text().splitlines()[-1])
    return line


@pytest.mark.parametrize(("tool", "given"), [("forecast", ["city", "note"]), ("mounted_forecast", ["city"])])
async def test_a_new_tool_is_pruned_when_asked(daemon: Daemon, tool: str, given: list[str]) -> None:
    (seen,) = [each for each in daemon.gate.visible(Access()) if each.name == tool]
    assert "context_focus_question" in seen.input_schema["properties"]
    outcome = await _call(daemon, tool, city="Brest", context_focus_question=_QUESTION)
    assert isinstance(outcome, Success)
    shown = outcome.reply.as_object()
    assert shown["given"] == given, "the tool does not see the question"
    assert shown["pruning"]["applied"]
    assert "hour 42: a storm over the bay" in shown["report"].split("\n")
    assert len(shown["report"]) < 12_000


@pytest.mark.parametrize("question", ["", " "])
async def test_a_question_to_a_mounted_tool_is_checked_like_any_other(daemon: Daemon, question: str) -> None:
    outcome = await _call(daemon, "mounted_forecast", city="Brest", context_focus_question=question)
    assert isinstance(outcome, Failure)
    assert outcome.code == "INVALID_PARAMS"


async def test_the_audit_log_keeps_what_a_new_tool_declares(daemon: Daemon) -> None:
    await _call(daemon, "forecast", city="Brest", note="my secret", context_focus_question=_QUESTION)
    line = _audited(daemon)
    assert line["args"] == {"city": "Brest", "note": "<9 chars>", "context_focus_question": "<22 chars>"}
    await _call(daemon, "mounted_forecast", city="Brest")
    assert _audited(daemon)["args"] == {"city": "<5 chars>"}, "of a tool that declares nothing, no text is kept"


@pytest.mark.parametrize("tool", ["forecast", "mounted_forecast"])
async def test_a_new_tool_is_compacted_where_the_profile_says_so(daemon: Daemon, tool: str) -> None:
    outcome = await _call(daemon, tool, "compact", city="Brest")
    assert isinstance(outcome, Success)
    assert isinstance(outcome.written, Compact)
    short = orjson.loads(outcome.written.encoded)
    assert len(outcome.written.encoded) <= 3_000
    assert (short["success"], short["hasMore"]) == (True, True)
    page = await _call(daemon, tool, "compact", cursor=short["nextCursor"])
    assert page.code == "ok"


async def test_a_new_tool_is_gated_like_the_rest(daemon: Daemon) -> None:
    switch = '{"version": 1, "profiles": [{"id": "default", "categories": [{"id": "weather", "enabled": false}]}]}'
    daemon.gate.swap(parse(switch, daemon.gate.catalog))
    outcome = await _call(daemon, "forecast", city="Brest")
    assert isinstance(outcome, Failure)
    assert isinstance(outcome.error, ToolDisabled)


def test_a_new_tool_is_in_the_reference(catalog: Catalog) -> None:
    page = pages(catalog)["tools.md"]
    assert "### forecast\n\nTell the weather hour by hour. *read*\n" in page
    assert "- **`city`** (string) Which city.\n" in page


async def test_the_exit_code_of_a_command_is_audited_with_a_question_too(daemon: Daemon) -> None:
    await _call(daemon, "shell_exec", command="seq 500; exit 3", context_focus_question="which number is 42?")
    line = _audited(daemon)
    assert (line["tool"], line["outcome"], line.get("exit")) == ("shell_exec", "ok", 3)


def test_a_result_says_six_things_to_the_host() -> None:
    public = {name for name, _ in inspect.getmembers(Result) if not name.startswith("_")}
    assert public == {"as_object", "render", "summary", "facts", "body", "item"}
