"""Commands as a person types them, for the tests of this room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from mcp_agent.cli import main as cli
from tests.support.daemon import environment


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


Run = Callable[..., Said]


@pytest.fixture
def tools_json(home: Path) -> Path:
    return home / ".config" / "mcp-agent" / "tools.json"


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command of a user who has set nothing, carried out here: a process of its own takes ten times as long."""
    for name in environment(home):
        monkeypatch.setenv(name, environment(home)[name])
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "MCP_AGENT_CONFIG", "MCP_AGENT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(home)

    def carry_out(*arguments: str) -> Said:
        try:
            code = cli.run(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Said(code, *capsys.readouterr())

    return carry_out
