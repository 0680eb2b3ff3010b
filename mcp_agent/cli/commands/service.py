"""`mcp-agent service`: run the daemon as a service of the user, with systemd. It then starts with the login."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

from mcp_agent.cli.commands.own_command import own_program
from mcp_agent.cli.declaration import EVERY, CommandReply, argument, command
from mcp_agent.cli.tables import Cell, Row, print_table
from mcp_agent.config import Config, load
from mcp_agent.process.printing import progress
from mcp_agent.process.runtime_file import RuntimeFacts, running_daemon
from mcp_agent.settings import DAEMON_SETTINGS
from registry.user_error import UserError
from tools.files import disk

_NAME = "mcp-agent"
_START_S = 15.0
_TIMEOUT_S = 60.0
_SUDO = """\
# sudo works in commands of clients as it does in your shell. `mcp-agent service install --no-sudo` sets
# NoNewPrivileges=yes, and then neither sudo nor any other setuid program gets more rights than you have."""
_NO_SUDO = """\
# Neither sudo nor any other setuid program gets more rights than you have. To let sudo work, install the service again
# without --no-sudo.
NoNewPrivileges=yes"""


@command(
    "service install",
    argument(
        "--no-sudo", action="store_true", help="keep sudo and other setuid programs from giving commands more rights"
    ),
    settings=EVERY,
    examples=("mcp-agent service install", "mcp-agent service install --port 9000 --no-sudo"),
)
def install(options: Namespace) -> CommandReply:
    """Write a unit for systemd with these settings, and start it; it then starts at login."""
    config = load(vars(options))
    _check_systemd()
    path = unit_path()
    is_new = not path.exists()
    running = running_daemon(config.runtime_file)
    if running is not None and is_new:
        raise UserError(f"a daemon runs already ({running.url}); end it first: mcp-agent stop")
    _check_user_bus()
    before = None if is_new else path.read_bytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        disk.replace_file(path, unit(options).encode())
        path.chmod(0o644)
        _systemctl("daemon-reload")
        _systemctl("enable", _NAME)
        _systemctl("restart", _NAME)
    except UserError:
        _put_back(path, before)
        raise
    with progress("waiting for the daemon"):
        daemon = _wait_for_daemon(config)
    print(f"{path} is {'installed' if is_new else 'replaced'}; the daemon runs at {daemon.url}/mcp")
    print("It starts when you log in. To keep it running without a login: loginctl enable-linger")
    no_sudo = "sudo does not work in it (NoNewPrivileges=yes)"
    print(no_sudo if options.no_sudo else "sudo works in it if it asks for no password; --no-sudo switches that off")
    print("Its log: mcp-agent logs --follow")
    return CommandReply({"unit": str(path), "new": is_new, "url": daemon.url, "pid": daemon.pid})


@command("service status", examples=("mcp-agent service status", "mcp-agent service status --json"))
def status(options: Namespace) -> CommandReply:
    """Whether the service is installed and runs. The exit code is 3 if it does not."""
    config = load(vars(options))
    path = unit_path()
    state = _state("is-active") if path.exists() else "not installed"
    daemon = running_daemon(config.runtime_file)
    facts = {
        "unit": str(path) if path.exists() else None,
        "state": state,
        "enabled": path.exists() and _state("is-enabled") == "enabled",
        "url": None if daemon is None else daemon.url,
        "pid": None if daemon is None else daemon.pid,
    }
    rows: list[Row] = [
        [Cell("service", "dim"), Cell(state, "green" if state == "active" else "yellow")],
        [Cell("unit", "dim"), str(path) if path.exists() else "none; mcp-agent service install makes one"],
        [Cell("daemon", "dim"), "none runs" if daemon is None else f"{daemon.url}/mcp, process {daemon.pid}"],
    ]
    if path.exists():
        rows.insert(1, [Cell("at login", "dim"), "starts" if facts["enabled"] else "does not start"])
    print_table(rows, "")
    return CommandReply(facts, 0 if state == "active" else 3)


@command("service uninstall", examples=("mcp-agent service uninstall", "mcp-agent service uninstall --json"))
def uninstall(options: Namespace) -> CommandReply:
    """Stop the service and remove its unit."""
    config = load(vars(options))
    path = unit_path()
    if not path.exists():
        raise UserError(f"no service is installed: there is no {path}")
    remove_unit(path)
    print(f"{path} is removed, and its daemon has stopped; tokens and settings stay in {config.state_dir}")
    return CommandReply({"unit": str(path), "removed": True})


def _put_back(path: Path, before: bytes | None) -> None:
    """After a failure, have the unit as it was: none, or the one before."""
    if before is None:
        _run("disable", _NAME)
        path.unlink(missing_ok=True)
    else:
        disk.replace_file(path, before)
    _run("daemon-reload")


def remove_unit(path: Path) -> None:
    """Stop the service and delete its unit. Raises UserError."""
    _check_systemd()
    with progress("stopping the daemon"):
        _systemctl("disable", "--now", _NAME)
    path.unlink()
    _systemctl("daemon-reload")


def main_pid() -> int | None:
    """The process of the service; None if it does not run, or if there is none."""
    if not unit_path().exists() or shutil.which("systemctl") is None:
        return None
    found = _run("show", "--property=MainPID", "--value", _NAME).stdout.strip()
    return int(found) if found.isdecimal() and found != "0" else None


def restart(config: Config) -> None:
    """Have systemd start the daemon again, and wait for it. Raises UserError."""
    _systemctl("restart", _NAME)
    _wait_for_daemon(config)


def unit(options: Namespace) -> str:
    """The unit file for the settings that were given as flags."""
    program = own_program()
    command = [sys.executable, "-m", "mcp_agent", "serve"] if program is None else [str(program), "serve"]
    for setting in DAEMON_SETTINGS:
        value = getattr(options, setting.name, None)
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                # A path that was given from here means the same from anywhere.
                is_path = setting.kind.name in ("path", "file", "folder")
                command += [setting.flag, str(Path(each).expanduser().absolute()) if is_path else str(each)]
    return f"""\
# Written by `mcp-agent service install`; `mcp-agent service uninstall` removes it.
[Unit]
Description=mcp-agent, a remote tool host for language models

[Service]
ExecStart={" ".join(_quote(word).replace("$", "$$") for word in command)}
# The commands of clients find the programs that you find.
Environment={_quote(f"PATH={os.environ.get('PATH', os.defpath)}")}
# Sessions are ended in order at a stop, within ten seconds; what has escaped even that goes with the control group.
KillMode=control-group
# Each command gets a control group of its own: stopping it ends even what has escaped every other search.
Delegate=yes
TimeoutStopSec=15
Restart=on-failure
RestartSec=2
{_NO_SUDO if options.no_sudo else _SUDO}

[Install]
WantedBy=default.target
"""


def _quote(word: str) -> str:
    """A word of a unit file, in which quotes, backslashes and `%` mean something."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{escaped}"'


def unit_path() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "systemd" / "user" / f"{_NAME}.service"


def _check_systemd() -> None:
    if shutil.which("systemctl") is None:
        raise UserError("there is no systemctl here; start `mcp-agent serve` with the service manager of this machine")


def _check_user_bus() -> None:
    """Raise UserError, with what to do, where no systemd of the user can be asked."""
    done = _run("show-environment")
    if done.returncode == 0:
        return
    user = getpass.getuser()
    raise UserError(
        f"systemd of the user {user} does not answer: {(done.stderr or done.stdout).strip() or 'no reason given'}\n"
        f"It runs where {user} has logged in, not behind su or sudo. Do one of these:\n"
        f"  log in as {user}, on the machine or by ssh, and try again\n"
        f"  sudo loginctl enable-linger {user}, then with XDG_RUNTIME_DIR=/run/user/{os.getuid()} try again\n"
        "  where there is no systemd, as in a container: have its own manager run `mcp-agent serve`"
    )


def _systemctl(*arguments: str) -> None:
    done = _run(*arguments)
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise UserError(f"systemctl --user {' '.join(arguments)} failed: {reason}")


def _state(question: str) -> str:
    """The one word with which systemctl answers, whatever its exit code is."""
    if shutil.which("systemctl") is None:
        return "unknown"
    return _run(question, _NAME).stdout.strip() or "unknown"


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["systemctl", "--user", *arguments], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"systemctl --user {' '.join(arguments)} did not answer within {_TIMEOUT_S:.0f} s") from None


def _wait_for_daemon(config: Config) -> RuntimeFacts:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        daemon = running_daemon(config.runtime_file)
        if daemon is not None:
            return daemon
        time.sleep(0.05)
    raise UserError(
        f"the service is installed, but no daemon runs after {_START_S:.0f} s: journalctl --user -u {_NAME}"
    )
