"""`mcp-agent service` with a stand-in for systemctl, which starts and ends what the unit says."""

from __future__ import annotations

import configparser
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.daemon import COMMAND, command, environment
from tests.support.waiting import PATIENCE_S

# As systemctl does it, for this one unit: `enable` notes a link, `restart` starts the ExecStart, `disable` ends it.
_SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$HOME/systemctl.log"
unit="$HOME/.config/systemd/user/mcp-agent.service"
shift
case "$1" in
  enable) touch "$HOME/enabled" ;;
  restart)
    test ! -e "$HOME/pid" || kill "$(cat "$HOME/pid")"
    line=$(sed -n 's/^ExecStart=//p' "$unit")
    eval "setsid $line > '$HOME/service.log' 2>&1 < /dev/null &"
    echo $! > "$HOME/pid" ;;
  disable) kill "$(cat "$HOME/pid")"; rm "$HOME/enabled" "$HOME/pid" ;;
  is-active) if test -e "$HOME/pid"; then echo active; else echo inactive; exit 3; fi ;;
  is-enabled) if test -e "$HOME/enabled"; then echo enabled; else echo disabled; exit 1; fi ;;
esac
"""


@pytest.fixture
def path(home: Path) -> str:
    """A PATH with the stand-in in front."""
    programs = home / "bin"
    programs.mkdir()
    (programs / "systemctl").write_text(_SYSTEMCTL)
    (programs / "systemctl").chmod(0o755)
    return f"{programs}:/usr/bin:/bin"


def _unit(home: Path) -> configparser.RawConfigParser:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # the documented way to keep the case of keys
    unit.read(home / ".config" / "systemd" / "user" / "mcp-agent.service")
    return unit


def test_a_service_is_installed_shown_and_removed(home: Path, path: str) -> None:
    absent = command(home, "service", "status", PATH=path)
    assert (absent.returncode, absent.stdout.splitlines()[0]) == (3, "service\tnot installed")
    try:
        installed = command(home, "service", "install", "--port", "0", "--profile", "lean", PATH=path)
        assert installed.returncode == 0, installed.stderr
        facts = json.loads(command(home, "service", "status", "--json", PATH=path).stdout)
        assert (facts["state"], facts["enabled"]) == ("active", True)
        assert f"the daemon runs at {facts['url']}/mcp\n" in installed.stdout
        assert "loginctl enable-linger" in installed.stdout
        assert "sudo works in it if it asks for no password; --no-sudo switches that off" in installed.stdout
        service = _unit(home)["Service"]
        assert service["ExecStart"] == f'"{COMMAND}" "serve" "--port" "0" "--profile" "lean"'
        assert service["Environment"] == f'"PATH={path}"'
        assert "NoNewPrivileges" not in service
        again = command(home, "service", "install", "--port", "0", "--no-sudo", PATH=path)
        assert again.returncode == 0, again.stderr
        assert _unit(home)["Service"]["NoNewPrivileges"] == "yes"
        assert "sudo does not work in it (NoNewPrivileges=yes)\n" in again.stdout
    finally:
        removed = command(home, "service", "uninstall", PATH=path)
    assert removed.returncode == 0, removed.stderr
    assert not (home / ".config" / "systemd" / "user" / "mcp-agent.service").exists()
    called = (home / "systemctl.log").read_text().splitlines()
    assert called[-2:] == ["--user disable --now mcp-agent", "--user daemon-reload"]
    missing = command(home, "service", "uninstall", PATH=path)
    assert (missing.returncode, missing.stderr.startswith("mcp-agent: no service is installed")) == (1, True)


def test_what_a_unit_file_would_take_for_something_else_is_quoted(home: Path, path: str) -> None:
    odd = home / 'a "b" %h $HOME'
    odd.mkdir()
    unit = home / ".config" / "systemd" / "user" / "mcp-agent.service"
    (home / "bin" / "systemctl").write_text(
        f'#!/bin/sh\ntest "$2" = show-environment && exit\ntest -e {home}/seen || cp {unit} {home}/seen\nexit 1\n'
    )
    failed = command(home, "service", "install", "--state-dir", str(odd), PATH=path)
    assert (failed.returncode, failed.stderr) == (
        1,
        "mcp-agent: systemctl --user daemon-reload failed: exit code 1\n",
    )
    assert not unit.exists()
    unit.write_bytes((home / "seen").read_bytes())
    escaped = str(odd).replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    assert _unit(home)["Service"]["ExecStart"] == f'"{COMMAND}" "serve" "--state-dir" "{escaped}"'


def test_without_a_user_bus_it_says_what_to_do_and_leaves_nothing(home: Path, path: str) -> None:
    """Seen: the reason of systemctl alone, and a unit file that nothing had read."""
    (home / "bin" / "systemctl").write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n")
    done = command(home, "service", "install", PATH=path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "does not answer: Failed to connect to bus\n" in done.stderr
    assert "sudo loginctl enable-linger" in done.stderr
    assert not (home / ".config" / "systemd").exists()


def test_without_systemd_it_says_so(home: Path) -> None:
    (home / "bin").mkdir()
    for name in ("python3", "sh"):
        (home / "bin" / name).symlink_to(f"/usr/bin/{name}")
    done = subprocess.run(
        [COMMAND, "service", "install"],
        env=environment(home, {"PATH": str(home / "bin")}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr.startswith("mcp-agent: there is no systemctl here")) == (1, True)
    assert not os.path.lexists(home / ".config" / "systemd")
