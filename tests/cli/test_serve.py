"""`mcp-agent serve` as it starts, is commanded, and ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_agent import __version__
from tests.support.daemon import COMMAND, Daemon, command, environment, running
from tests.support.pruner_http import PRUNER
from tests.support.raw import request
from tests.support.waiting import PATIENCE_S, eventually_sync
from tools.files.revisions import rev_of_bytes, short_rev


def _status(daemon: Daemon) -> Any:
    return request(daemon, path="/api/status").object


def test_the_first_line_of_stdout_says_that_it_is_ready(home: Path) -> None:
    with running(home) as daemon:
        port = int(daemon.url.rpartition(":")[2])
        assert daemon.ready == {
            "event": "ready",
            "url": f"http://127.0.0.1:{port}",
            "pid": daemon.process.pid,
            "token_file": str(home / ".local" / "state" / "mcp-agent" / "token"),
            "version": __version__,
        }
        with socket.create_connection(("127.0.0.1", port)):
            pass
        assert daemon.process.stdout is not None
        daemon.process.send_signal(signal.SIGTERM)
        assert (daemon.process.stdout.read(), daemon.process.wait(PATIENCE_S)) == (b"", 0)


_NAMES_IMPORTS = """
import sys

class Seen:
    @staticmethod
    def find_spec(name, path=None, target=None):
        print("imports", name, file=sys.stderr, flush=True)

sys.meta_path.insert(0, Seen)
from mcp_agent.cli.main import run
run(sys.argv[1:])
"""


def test_a_start_imports_nothing_of_what_is_not_set_up(home: Path) -> None:
    """What nobody mounts, wraps or opens costs nobody a start."""
    with running(home, start=(sys.executable, "-c", _NAMES_IMPORTS)) as daemon:
        imported = {line.split()[1] for line in daemon.stderr.read_text().splitlines() if line.startswith("imports ")}
    rooms = {
        "mcp_agent.cli.clients",
        "mcp_agent.fleet",
        "mcp_agent.open_terminal",
        "mcp_agent.programs",
        "mcp_agent.upstream",
        "tools.cli",
    }
    libraries = {"mcp", "nats", "numpy", "PIL", "pydantic", "python_multipart", "tomlkit", "websockets"}
    assert "mcp_agent.server" in imported
    assert {name for name in imported if name.rpartition(".")[0] in rooms} == {
        "mcp_agent.upstream.mounted_servers",
    }
    assert {name.partition(".")[0] for name in imported} & libraries == set()
    assert "registry.mounts" not in imported


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_order(home: Path, sign: signal.Signals) -> None:
    with running(home) as daemon:
        runtime = home / ".local" / "state" / "mcp-agent" / "daemon.json"
        assert json.loads(runtime.read_text())["url"] == daemon.url
        daemon.process.send_signal(sign)
        assert daemon.process.wait(PATIENCE_S) == 0
        assert not runtime.exists()


def test_a_second_daemon_with_the_same_state_folder_is_refused(home: Path) -> None:
    with running(home) as first:
        second = command(home, "serve", "--port", "0")
        folder = home / ".local" / "state" / "mcp-agent"
        assert (second.returncode, second.stdout) == (1, "")
        assert second.stderr == (
            f"mcp-agent: mcp-agent runs already: another daemon uses the state folder {folder} "
            f"({first.url}, pid {first.process.pid}); use that one as it is, or end it with: mcp-agent stop. "
            "A second one needs a folder and a port of its own: --state-dir, --port\n"
        )
        assert _status(first)["status"] == "ok"
        (folder / "serve.lock").unlink()
        without_lock = command(home, "serve", "--port", "0")
        assert (without_lock.returncode, without_lock.stderr) == (1, second.stderr)
        with running(home, "--state-dir", str(home / "other")) as third:
            assert _status(third)["status"] == "ok"
        first.process.kill()
        first.process.wait()
    with running(home) as next_one:
        assert _status(next_one)["status"] == "ok"


@pytest.mark.parametrize("program", [(COMMAND, "stdio"), (PRUNER,)], ids=["mcp-agent", "mcp-pruner"])
def test_the_state_folder_is_its_owner_s_alone(home: Path, program: tuple[str, ...]) -> None:
    folder = home / ".local" / "state" / "mcp-agent"

    def mode() -> int:
        subprocess.run(
            program, stdin=subprocess.DEVNULL, env=environment(home), cwd=home, timeout=PATIENCE_S, check=True
        )
        return folder.stat().st_mode & 0o777

    assert mode() == 0o700
    folder.chmod(0o755)
    assert mode() == 0o700


def test_a_state_folder_that_somebody_chose_is_not_changed_but_told(home: Path) -> None:
    chosen = home / "chosen"
    chosen.mkdir(mode=0o755)
    chosen.chmod(0o755)
    with running(home, "--state-dir", str(chosen)) as daemon:
        pass
    told = [line["data"] for line in daemon.log() if line["event"] == "security.state_is_open"]
    assert told == [{"message": f"others can access {chosen} (0755); run: chmod 700 {chosen}"}]
    assert chosen.stat().st_mode & 0o777 == 0o755


def test_the_token_is_not_sent_where_somebody_else_says(daemon: Daemon) -> None:
    runtime = daemon.home / ".local" / "state" / "mcp-agent" / "daemon.json"
    runtime.chmod(0o666)
    told = daemon.cli("disable", "fs_read")
    assert (told.returncode, told.stderr) == (
        1,
        f"mcp-agent: another user can write {runtime}, and the token is sent to the address in it; delete it\n",
    )
    runtime.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(runtime, 65_534, 65_534)
        assert "another user can write" in daemon.cli("disable", "fs_read").stderr
        os.chown(runtime, 0, 0)
    assert daemon.cli("disable", "fs_read").returncode == 0


def test_an_unknown_profile_is_the_fault_of_the_flag_and_not_of_tools_json(home: Path) -> None:
    for program in ("serve", "stdio"):
        ended = command(home, program, "--profile", "nope")
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith("mcp-agent: --profile nope: there is no such profile; there are default, lean")
        assert "tools.json" not in ended.stderr


def test_a_port_that_our_own_daemon_has_is_one_sentence(daemon: Daemon) -> None:
    port = daemon.url.rpartition(":")[2]
    folder = daemon.home / "other"
    ended = command(daemon.home, "serve", "--port", port, "--state-dir", str(folder))
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        1,
        "",
        f"mcp-agent: port {port} of 127.0.0.1 is taken by mcp-agent {__version__}, a daemon with another state folder "
        f"than {folder}; use that one ({daemon.url}/mcp), stop it, or choose another port: --port\n",
    )
    assert daemon.cli("disable", "fs_read").returncode == 0
    assert "fs_read" not in [tool["name"] for tool in _tools(daemon)]


def test_a_port_that_another_program_has_is_one_sentence(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = command(home, "serve", "--port", str(port))
    assert (ended.returncode, ended.stderr) == (
        1,
        f"mcp-agent: port {port} of 127.0.0.1 is taken by another program; stop it, or choose another port: --port\n",
    )


def test_commands_go_through_the_daemon_and_are_in_force_at_once(daemon: Daemon) -> None:
    assert "fs_read" in [tool["name"] for tool in _tools(daemon)]
    assert daemon.cli("disable", "fs_read").stdout.startswith("fs_read is off in the profile default\n")
    assert "fs_read" not in [tool["name"] for tool in _tools(daemon)]
    told = daemon.cli("enable", "fs_raed")
    assert (told.returncode, told.stderr) == (
        2,
        "mcp-agent: there is no category or tool 'fs_raed' (did you mean fs_read?)\n",
    )
    assert daemon.cli("profile", "use", "pruner").stdout.startswith("pruner is the active profile\n")
    assert _status(daemon)["registry"]["active_profile"] == "pruner"
    assert "*\tpruner\t" in daemon.cli("profile", "list").stdout
    told = daemon.cli("profile", "use", "nobody")
    assert (told.returncode, told.stderr.startswith("mcp-agent: there is no profile 'nobody' (there are ")) == (2, True)
    assert _status(daemon)["registry"]["reloads"] == 2


def test_a_call_goes_through_the_daemon_and_paths_count_from_here(home: Path) -> None:
    (home / "here").mkdir()
    (home / "here" / "x").write_text("one")
    with running(home, cwd=Path("/")) as daemon:
        assert (
            daemon.cli("call", "fs_read", "path=here/x").stdout
            == f"{home / 'here' / 'x'} · 3 bytes · rev {short_rev(rev_of_bytes(b'one'))}\none\n"
        )
        assert json.loads(daemon.cli("call", "fs_read", "path=here/x", "--json").stdout)["content"] == "one"
        failed = daemon.cli("call", "fs_read", "path=here/nowhere")
        assert (failed.returncode, failed.stdout) == (1, "")
        assert failed.stderr.startswith(f"[NOT_FOUND] {home / 'here' / 'nowhere'} does not exist\n")
        for form in ((), ("--json",)):
            wrong = daemon.cli("call", "fs_read", "path=here/x", "max_bytes=many", *form)
            assert (wrong.returncode, "INVALID_PARAMS" in wrong.stderr) == (2, True), wrong
        narrowed = daemon.cli("call", "fs_read", "path=here/x", "--profile", "browser-only")
        assert (narrowed.returncode, narrowed.stderr.splitlines()[0]) == (1, "[TOOL_DISABLED] Tool fs_read is disabled")
        assert daemon.cli("call", "shell_exec", "command=pwd").stdout.split()[-1] == str(home)
        assert daemon.cli("call", "bash", "command=pwd", "cwd=here").stdout.split()[-1] == str(home / "here")
        unknown = daemon.cli("call", "fs_raed")
        assert (unknown.returncode, unknown.stderr) == (2, "mcp-agent: Unknown tool: fs_raed (did you mean fs_read?)\n")
        # A tools.json of its own is not what the daemon goes by.
        own = command(home, "call", "fs_read", "path=here/x", "--tools-file", str(home / "own.json"))
        assert own.stdout == f"{home / 'here' / 'x'} · 3 bytes · rev {short_rev(rev_of_bytes(b'one'))}\none\n"


def test_a_daemon_that_was_killed_is_not_waited_for(home: Path) -> None:
    with running(home) as daemon:
        daemon.process.kill()
        daemon.process.wait(PATIENCE_S)
        (home / "x").write_text("one")
        assert (
            daemon.cli("call", "fs_read", "path=x").stdout
            == f"{home / 'x'} · 3 bytes · rev {short_rev(rev_of_bytes(b'one'))}\none\n"
        )
        assert daemon.cli("disable", "fs_read").stdout.startswith("fs_read is off in the profile default\n")


def test_a_broken_tools_json_is_not_written_over_by_a_command(daemon: Daemon) -> None:
    daemon.save('{"version": 2}')
    told = daemon.cli("disable", "fs_read")
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr == f"mcp-agent: {daemon.tools_json} is broken: /version: must be 1, not 2\n"
    assert daemon.tools_json.read_text() == '{"version": 2}'


@pytest.mark.parametrize(
    "content",
    ['{"activeProfile": "\\ud800"}', '{"a": ' + "9" * 5_000 + "}", '{"a": ' + "[" * 990 + "]" * 990 + "}", "\0"],
)
def test_no_content_of_tools_json_ends_the_daemon(daemon: Daemon, content: str) -> None:
    daemon.save(content)
    _wait_for(daemon, "degraded")
    assert "fs_read" in [tool["name"] for tool in _tools(daemon)]
    daemon.save({"activeProfile": "lean"})
    _wait_for(daemon, "ok")
    assert _status(daemon)["registry"]["active_profile"] == "lean"


def test_a_flag_counts_before_the_environment_and_that_before_the_file(home: Path) -> None:
    folder = home / ".config" / "mcp-agent"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('profile = "compact"\nlog_level = "error"\nport = 1\n')
    assert command(home, "tools").stdout.startswith("profile compact: ")
    assert command(home, "tools", MCP_AGENT_PROFILE="lean").stdout.startswith("profile lean: ")
    assert command(home, "tools", "--profile", "pruner", MCP_AGENT_PROFILE="lean").stdout.startswith("profile pruner: ")
    with running(home, extra={"MCP_AGENT_PROFILE": "lean"}) as daemon:
        assert _status(daemon)["registry"]["active_profile"] == "lean"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("prot = 1", "there is no setting 'prot' (did you mean port?)"),
        ("colour = 1", "there is no setting 'colour'; there are host, port, tools_file, "),
        ("port = ", "Invalid value (at end of document)"),
        ("port = true", "needs a whole number from 0 to 65535, not True"),
        ("host = 5", "needs a value, a text"),
        ("allow_host = 5", "needs names, separated by commas"),
    ],
)
def test_a_config_file_that_cannot_be_used_is_one_sentence(home: Path, content: str, message: str) -> None:
    file = home / ".config" / "mcp-agent" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(content)
    ended = command(home, "tools")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert f"{file}: {message}" in ended.stderr


def test_an_older_place_of_tools_json_is_used_where_there_is_one(home: Path) -> None:
    (home / ".mcp-eyes-tools.json").write_text('{"activeProfile": "lean"}')
    assert command(home, "tools").stdout.startswith("profile lean: ")
    assert not (home / ".config").exists()


def _tools(daemon: Daemon) -> list[dict[str, Any]]:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    listed: list[dict[str, Any]] = request(daemon, "POST", "/rpc", body).object["result"]["tools"]
    return listed


def _wait_for(daemon: Daemon, status: str) -> None:
    """Ask until the daemon says so: /health is how anyone learns it."""
    eventually_sync(lambda: _status(daemon), lambda seen: seen["status"] == status)
