"""The table of settings: what a value may be, and where it may come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_agent.config import Config, load
from mcp_agent.settings import SETTINGS, BadConfig


@pytest.fixture(autouse=True)
def _no_config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_every_setting_has_a_field_and_every_field_a_setting() -> None:
    assert tuple(setting.name for setting in SETTINGS) == Config.__match_args__


@pytest.mark.parametrize("value", [80.5, True, "80.5", "-1", "", "٣", "9" * 5_000, None, [80]])
def test_a_port_that_is_no_whole_number_in_range_is_refused(value: Any) -> None:
    with pytest.raises(BadConfig, match=r"^MCP_AGENT_PORT: needs a whole number from 0 to 65535, not "):
        load({}, {"MCP_AGENT_PORT": value})


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "mcp-agent").mkdir()
    (tmp_path / "mcp-agent" / "config.toml").write_text("port = 1\nmax_sessions = 1\nyield_ms = 1\n")
    config = load({"port": "3"}, {"MCP_AGENT_PORT": "2", "MCP_AGENT_MAX_SESSIONS": " 2 "})
    assert (config.port, config.max_sessions, config.yield_ms, config.journal_days) == (3, 2, 1, 7)


def test_an_empty_variable_of_the_pruner_is_unset_but_an_empty_url_turns_pruning_off(tmp_path: Path) -> None:
    names = ("PRUNER_TIMEOUT_MS", "MCP_PRUNER_CWD", "MCP_PRUNER_HOST", "MCP_PRUNER_PORT")
    config = load({}, {**dict.fromkeys(names, ""), "PRUNER_URL": ""})
    assert (config.pruner_timeout_ms, config.pruner_cwd, config.pruner_host, config.pruner_port) == (
        30_000,
        None,
        "127.0.0.1",
        8006,
    )
    assert (config.pruner_url, load({}, {}).pruner_url) == ("", None)
    assert load({}, {"MCP_PRUNER_CWD": str(tmp_path)}).pruner_cwd == tmp_path


def test_the_settings_of_the_pruner_are_not_in_the_config_file(tmp_path: Path) -> None:
    (tmp_path / "mcp-agent").mkdir()
    (tmp_path / "mcp-agent" / "config.toml").write_text('pruner_url = "http://localhost/prune"\n')
    with pytest.raises(BadConfig, match="there is no setting 'pruner_url'"):
        load({}, {})
