"""The quickstart from the other side: a laptop with `ssh` and nothing of ours, as another user, through a real sshd."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import COMMAND, Daemon, environment
from tests.support.waiting import PATIENCE_S, eventually

_SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin:/sbin:/bin")

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or _SSHD is None,
    reason="needs root, to add the user of the laptop, and openssh-server, which only a machine for tests is given",
)


@contextmanager
def _user_of_laptop() -> Iterator[pwd.struct_passwd]:
    name = f"laptop-{uuid.uuid4().hex[:8]}"
    subprocess.run(["useradd", "--create-home", "--shell", "/bin/sh", name], check=True, capture_output=True)
    try:
        yield pwd.getpwnam(name)
    finally:
        subprocess.run(["userdel", "--remove", name], check=False, capture_output=True)


@contextmanager
def _login_server(folder: Path, key: Path, home: Path) -> Iterator[int]:
    """An sshd on loopback that lets `key` in as the user of the daemon, whose home is `home`."""
    assert _SSHD is not None
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    Path("/run/sshd").mkdir(exist_ok=True)
    host_key = folder / "host_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(host_key)], check=True)
    allowed = folder / "authorized_keys"
    allowed.write_text(key.with_suffix(".pub").read_text())
    program = Path(sys.executable).parent
    settings = (
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {host_key}",
        f"AuthorizedKeysFile {allowed}",
        f"PidFile {folder / 'pid'}",
        "StrictModes no",
        "UsePAM no",
        "PermitRootLogin prohibit-password",
        f"SetEnv HOME={home} PATH={program}:/usr/bin:/bin",
    )
    config = folder / "sshd_config"
    config.write_text("\n".join(settings))
    server = subprocess.Popen([_SSHD, "-D", "-e", "-f", str(config)], stderr=subprocess.DEVNULL)
    try:
        yield port
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


@pytest.fixture
def laptop(tmp_path: Path, home: Path) -> Iterator[pwd.struct_passwd]:
    """A user whose `ssh devbox` logs in to the account of the daemon."""
    with _user_of_laptop() as user:
        keys = Path(user.pw_dir, ".ssh")
        keys.mkdir(mode=0o700)
        key = keys / "id_ed25519"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        with _login_server(tmp_path, key, home) as port:
            lines = ("Host devbox", "HostName 127.0.0.1", f"Port {port}", f"User {pwd.getpwuid(os.geteuid()).pw_name}")
            (keys / "config").write_text("\n".join((*lines, "StrictHostKeyChecking accept-new", "BatchMode yes", "")))
            for each in (keys, *keys.iterdir()):
                os.chown(each, user.pw_uid, user.pw_gid)
            yield user


def _talk(user: pwd.struct_passwd, command: Sequence[str], *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """What a client of that user hears that starts `command` and says `messages`."""
    said = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    done = subprocess.run(
        ["su", user.pw_name, "-c", " ".join(command)],
        input=said,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
        cwd="/",
        timeout=PATIENCE_S,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers, done.stderr
    return answers


async def test_what_connect_prints_for_a_laptop_reaches_the_daemon(laptop: pwd.struct_passwd, daemon: Daemon) -> None:
    printed = daemon.cli("connect", "claude-code", "--ssh", "devbox", "--print")
    assert printed.returncode == 0, printed.stderr
    start = printed.stdout.index("{")
    entry, _ = json.JSONDecoder().raw_decode(printed.stdout[start:])
    server = entry["mcpServers"]["devbox"]
    assert (server["command"], server["args"][:2]) == ("ssh", ["devbox", COMMAND])
    assert "belongs into ~/.claude.json (on Windows %USERPROFILE%\\.claude.json) on the machine of" in printed.stderr
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "laptop", "version": "1"}}
    command = {"name": "shell_start_session", "arguments": {"command": "echo seen from the laptop"}}
    answers = _talk(
        laptop,
        (server["command"], *server["args"]),
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": command},
    )
    started = next(answer for answer in answers if answer.get("id") == 2)
    session_id = started["result"]["structuredContent"]["session_id"]

    def sessions() -> str:
        return daemon.cli("sessions", "list").stdout

    # The session is the daemon's: it outlives the bridge, and the owner sees it on the dev box.
    assert session_id in await eventually(sessions, lambda listed: session_id in listed)


def test_no_key_of_the_daemon_is_on_the_laptop(laptop: pwd.struct_passwd, daemon: Daemon) -> None:
    printed = daemon.cli("connect", "claude-code", "--ssh", "devbox", "--print")
    assert daemon.token not in printed.stdout
    seen = subprocess.run(
        ["su", laptop.pw_name, "-c", f"cat {daemon.ready['token_file']}"],
        capture_output=True,
        env=environment(Path("/")),
        check=False,
    )
    assert seen.returncode != 0
