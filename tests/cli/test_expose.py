"""`mcp-agent expose`: a public name on, checked and off, and what it prints to set up and to paste."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path

import pytest

from mcp_agent.cli.commands.public_recipes import RECIPES
from tests.support import ROOT
from tests.support.daemon import COMMAND, Daemon, command, running

_CALLBACKS = {
    "Claude": ["https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback"],
    "ChatGPT": ["https://chatgpt.com/connector_platform_oauth_redirect"],
}
_MINE = '# mine\nlog_level = "info"\n\n[fleet]\nbox = "x" # too\n'


def _settings(home: Path) -> Path:
    path = home / ".config" / "mcp-agent" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def test_a_name_is_set_served_checked_and_taken_away(home: Path) -> None:
    settings = _settings(home)
    settings.write_text(_MINE)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # The name of a proxy here, so that it leads to the daemon.
    url = f"http://localhost:{port}"
    with running(home, "--port", str(port)) as daemon:
        assert command(home, "expose").returncode == 2
        done = daemon.cli("expose", url, "--yes", "--json")
        assert done.returncode == 0, done.stderr
        facts = json.loads(done.stdout)
        assert (facts["url"], facts["resource"], facts["callbacks"]) == (url, f"{url}/mcp", _CALLBACKS)
        assert (facts["check"]["leads_here"], facts["check"]["problem"]) == (True, None)
        try:
            assert settings.read_text() == _MINE.replace("\n\n[fleet]", f'\npublic_url = "{url}"\n\n[fleet]')
            shown = daemon.cli("expose")
            assert shown.returncode == 0, shown.stderr
            assert f"Checked: {url} leads to this daemon." in shown.stdout
            *_, pasted, callbacks = shown.stdout.split("\n\n")
            assert pasted.startswith("They are called back at")
            assert f"  {url}/mcp\n" in shown.stdout
            assert all(each in callbacks for found in _CALLBACKS.values() for each in found)
            # Once more changes nothing, and starts nothing again.
            before = json.loads(daemon.cli("status", "--json").stdout)["pid"]
            assert daemon.cli("expose", url).returncode == 0
            assert json.loads(daemon.cli("status", "--json").stdout)["pid"] == before
            off = daemon.cli("expose", "--off", "--yes")
            assert off.returncode == 0, off.stderr
            assert settings.read_text() == _MINE
            assert "public" not in json.loads(daemon.cli("status", "--json").stdout)
        finally:
            assert command(home, "stop").returncode == 0


def test_without_a_daemon_it_is_set_for_the_next_start(home: Path) -> None:
    done = command(home, "expose", "Box.Example")
    assert done.returncode == 0, done.stderr
    assert "mcp-agent serve" in done.stdout
    assert "Not checked" in done.stdout
    assert _settings(home).read_text() == 'public_url = "https://box.example"\n'
    # Asking alone says in its exit code that it does not lead here.
    assert command(home, "expose").returncode == 1
    with running(home) as daemon:
        shown = daemon.cli("expose", "--by", "caddy")
        assert (shown.returncode, "it does not lead here yet" in shown.stdout) == (1, True)
        assert f"reverse_proxy 127.0.0.1:{daemon.url.rpartition(':')[2]}\n" in shown.stdout


@pytest.mark.parametrize(
    "wrong", ["http://box.example", "https://box.example/mcp", "https://*.example", "box example", "ftp://box.example"]
)
def test_what_is_no_public_name_is_refused(home: Path, wrong: str) -> None:
    done = command(home, "expose", wrong)
    assert (done.returncode, done.stdout) == (2, "")
    assert not _settings(home).exists()


def test_nothing_is_changed_without_a_yes(daemon: Daemon) -> None:
    done = subprocess.run(
        [COMMAND, "expose", "https://box.example"],
        input="n\n",
        capture_output=True,
        text=True,
        env={"HOME": str(daemon.home)},
        check=False,
    )
    assert (done.returncode, "nothing was changed" in done.stderr) == (1, True)
    assert not _settings(daemon.home).exists()
    assert daemon.process.poll() is None


def test_a_flag_that_wins_over_the_file_is_told(home: Path) -> None:
    with running(home, "--public-url", "https://one.example") as daemon:
        done = daemon.cli("expose", "https://two.example", "--yes")
        try:
            assert (done.returncode, "still has the public name https://one.example" in done.stderr) == (1, True)
        finally:
            assert command(home, "stop").returncode == 0


def test_a_file_that_cannot_be_read_stays_as_it_is(home: Path) -> None:
    _settings(home).write_text("port = \n")
    done = command(home, "expose", "https://box.example")
    assert (done.returncode, "config.toml" in done.stderr) == (2, True)
    assert _settings(home).read_text() == "port = \n"


@pytest.mark.parametrize("name", RECIPES)
def test_each_recipe_is_printed_and_in_the_docs(home: Path, name: str) -> None:
    recipe = RECIPES[name]
    assert recipe.text in (ROOT / "docs" / "public.md").read_text()
    _settings(home).write_text('public_url = "https://my.own.name:8443"\nport = 9000\n')
    printed = command(home, "expose", "--by", name)
    facts = json.loads(command(home, "expose", "--by", name, "--json").stdout)
    if name == "tunnel-client":
        assert facts["recipe"] == recipe.text
    else:
        assert "box.example" not in facts["recipe"]
        assert "8765" not in facts["recipe"]
    for line in facts["recipe"].splitlines():
        assert line in printed.stdout
