"""Whether a client that runs `ssh HOST mcp-agent stdio --attach` will reach a daemon: login, program, daemon.

A client starts ssh without a terminal and shows little of what it prints, so it is tried before the entry is written.
"""

from __future__ import annotations

import json
import subprocess

from mcp_agent.cli.clients.reach import by_ssh, program
from registry.user_error import UserError

_PATIENCE_S = 30.0
_QUICK_S = 4
_NO_LOGIN, _NO_PROGRAM, _NO_DAEMON = 255, 127, 3
# Nobody can be asked for a password when a client starts it.
_OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10")


def check_box(host: str) -> str:
    """What was found there, in a sentence. Raises UserError, which says what to do."""
    command, name = by_ssh(host, None).command, by_ssh(host, None).arguments[1]
    try:
        done = subprocess.run(
            [command, *_OPTIONS, host, name, "status", "--json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except FileNotFoundError:
        raise UserError("there is no ssh on this machine; install it (openssh-client), then connect again") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"{host} has not answered within {_PATIENCE_S:g} s; see that `ssh {host} true` works") from None
    said = next(iter(done.stderr.strip().splitlines()[-1:]), "")
    match done.returncode:
        case 0:
            return f"{host}: its daemon runs{_address(done.stdout)}"
        case code if code == _NO_DAEMON:
            return f"{host}: no daemon runs there now; the client starts one, which stays"
        case code if code == _NO_LOGIN:
            raise UserError(
                f"ssh cannot log in to {host} without asking: {said or 'it does not say why'}. A key that needs no "
                f"password must let you in: `ssh-copy-id {host}`; then `ssh -o BatchMode=yes {host} true` works"
            )
        case code if code == _NO_PROGRAM:
            raise UserError(
                f"there is no {name} on the PATH that ssh has on {host}: {said}. Install it there, or link it "
                f"to where it is found: ssh {host} 'sudo ln -s ~/.local/bin/{name} /usr/local/bin/'"
            )
        case code:
            raise UserError(f"`{name} status` on {host} has failed with exit code {code}: {said}")


def remote_program(host: str) -> tuple[str, bool]:
    """The path of the program on `host`, and whether ssh has said so. If not, that is this machine under another name:
    there people run the command whose output they paste elsewhere.
    """
    by_ssh(host, None)
    # Of two values of an option, ssh takes the first.
    asked = ["ssh", "-o", f"ConnectTimeout={_QUICK_S}", *_OPTIONS, host, "command", "-v", "mcp-agent"]
    try:
        done = subprocess.run(
            asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=15, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return program(), False
    said = done.stdout.strip()
    return (said, True) if done.returncode == 0 and said.startswith("/") and "\n" not in said else (program(), False)


def _address(printed: str) -> str:
    try:
        return f" at {json.loads(printed)['url']}"
    except (ValueError, KeyError, TypeError):
        return ""
