"""A coding client with a scratch home, a scripted model and the daemon, as `mcp-agent connect` has set it up."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import ROOT, node
from tests.support.daemon import COMMAND, Daemon, command, environment, running
from tests.support.model_server import ModelServer, model_server
from tests.support.programs import CODING_CLIENTS
from tests.support.recording_daemon import FILE
from tests.support.waiting import eventually_sync

PATIENCE_S = 120.0
_ATTEMPTS = 3
_PROMPT = "Do what the script says."


@dataclass(frozen=True)
class Launch:
    """How a client is run once, without a terminal: flags and variables that lead it to the model."""

    flags: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    # Run before the first time, and what is in its file before we are.
    setup: tuple[str, ...] = ()
    file: tuple[str, str] | None = None
    # Flags of `connect`, where a run without a terminal is refused our tools otherwise.
    connect: tuple[str, ...] = ()


def launches(model: str) -> dict[str, Launch]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{model}/v1", "apiKey": "x"},
        "models": {"scripted": {}},
    }
    codex = f'{{name="local",base_url="{model}/v1",wire_api="responses"}}'
    return {
        "claude-code": Launch(
            ("-p", _PROMPT),
            {
                "ANTHROPIC_BASE_URL": model,
                "ANTHROPIC_API_KEY": "x",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            },
            connect=("--approve", "all"),
        ),
        "codex": Launch(
            (
                *("exec", "--skip-git-repo-check", "-c", 'model_provider="local"'),
                *("-c", f"model_providers.local={codex}", "-c", 'model="gpt-5"', _PROMPT),
            ),
            file=(".codex/config.toml", "# mine\ncheck_for_update_on_startup = false\n"),
            connect=("--approve", "all"),
        ),
        "gemini-cli": Launch(
            ("-m", "gemini-2.5-flash", "-p", _PROMPT),
            {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": model, "GEMINI_CLI_TRUST_WORKSPACE": "true"},
            file=(
                ".gemini/settings.json",
                '{\n  "security": {"auth": {"selectedType": "gemini-api-key"}} // mine\n}\n',
            ),
            connect=("--approve", "all"),
        ),
        "copilot-cli": Launch(
            ("-p", _PROMPT, "--allow-all-tools", "--model", "scripted"),
            {
                "COPILOT_PROVIDER_BASE_URL": f"{model}/v1",
                "COPILOT_PROVIDER_TYPE": "openai",
                "COPILOT_PROVIDER_API_KEY": "x",
                "COPILOT_AUTO_UPDATE": "false",
            },
        ),
        "opencode": Launch(
            ("run", "--model", "local/scripted", _PROMPT),
            {
                "OPENCODE_CONFIG_CONTENT": json.dumps({"provider": {"local": provider}}),
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
            },
        ),
        "cline": Launch(
            ("--provider", "openai-compatible", "--model", "scripted", _PROMPT),
            setup=("auth", "-p", "openai-compatible", "-k", "x", "-m", "scripted", "-b", f"{model}/v1"),
        ),
        "qwen-code": Launch(
            ("-p", _PROMPT),
            {"OPENAI_BASE_URL": f"{model}/v1", "OPENAI_API_KEY": "x", "OPENAI_MODEL": "scripted"},
            connect=("--approve", "all"),
        ),
    }


class CodingClient:
    """One client, its daemon, which can be started again on the same port, and its model."""

    def __init__(self, name: str, home: Path, model: ModelServer, flags: tuple[str, ...] = ()) -> None:
        self.name, self.home, self.model, self._flags = name, home, model, flags
        self.recording = home / "recording.jsonl"
        self.work = home / "work"
        self.work.mkdir()
        self._command = CODING_CLIENTS[name]()
        self._launch = launches(model.url)[name]
        self._daemon = ExitStack()
        self.daemon = self._start_daemon("0")

    def _start_daemon(self, port: str) -> Daemon:
        start = (sys.executable, str(ROOT / "tests/support/recording_daemon.py"))
        return self._daemon.enter_context(
            running(self.home, "--port", port, *self._flags, start=start, extra={FILE: str(self.recording)})
        )

    def restart_daemon(self) -> None:
        """Stop it and start it again, on the port that the client knows."""
        self._daemon.close()
        self.daemon = self._start_daemon(self.daemon.url.rpartition(":")[2])

    def close(self) -> None:
        self._daemon.close()

    def connect(self) -> str:
        """Have `mcp-agent connect` write its file, into which it may have written itself."""
        if self._launch.file is not None:
            path, text = self._launch.file
            (self.home / path).parent.mkdir(parents=True, exist_ok=True)
            (self.home / path).write_text(text)
        done = self.daemon.cli("connect", self.name, *self._launch.connect)
        assert done.returncode == 0, done.stderr
        if self._launch.setup:
            with self._started(self._launch.setup) as process:
                process.communicate(timeout=PATIENCE_S)
        return done.stdout

    def connect_by_ssh(self) -> None:
        """Have it reach the daemon through a stand-in for ssh, which runs the command line here, as sshd does there."""
        ssh = self.home / "bin" / "ssh"
        ssh.parent.mkdir()
        command_line = f'"$* --config {self.daemon.tools_json}"'
        path = f"{Path(COMMAND).parent}:$PATH"
        options = 'while [ "$1" = -o ]; do shift 2; done'
        ssh.write_text(
            f'#!/bin/sh\n{options}\n[ "$1" = box ] || exit 255\nshift\nPATH={path}\nexec sh -c {command_line}\n'
        )
        ssh.chmod(0o755)
        done = command(
            self.home, "connect", self.name, "--ssh", "box", *self._launch.connect, PATH=f"{ssh.parent}:/usr/bin:/bin"
        )
        assert done.returncode == 0, done.stderr

    def run(self, within_s: float = PATIENCE_S) -> str:
        """Run it to its end, and return what it printed.

        On a busy machine some ask their model before they have our tools, and are done. They are run again.
        """
        for _ in range(_ATTEMPTS):
            with self.started() as process:
                out = process.communicate(timeout=within_s)[0]
            if self.model.seen:
                break
        return out.decode("utf-8", "replace")

    def ask(self, command: str) -> str:
        """What a command of it prints, such as `codex mcp list`."""
        with self._started(tuple(command.split()[1:])) as process:
            return process.communicate(timeout=PATIENCE_S)[0].decode("utf-8", "replace")

    @contextlib.contextmanager
    def calling(self, mark: Path) -> Iterator[subprocess.Popen[bytes]]:
        """It, once a command that it called has written its process id to `mark`."""
        for _ in range(_ATTEMPTS):
            with self.started() as process:
                eventually_sync(
                    lambda: process.poll() is not None or (mark.exists() and mark.read_text().endswith("\n")),
                    within_s=PATIENCE_S,
                )
                if mark.exists():
                    yield process
                    return
        raise AssertionError(f"{self.name} has called nothing")

    @contextlib.contextmanager
    def started(self) -> Iterator[subprocess.Popen[bytes]]:
        with self._started(self._launch.flags) as process:
            yield process

    @contextlib.contextmanager
    def _started(self, flags: tuple[str, ...]) -> Iterator[subprocess.Popen[bytes]]:
        variables = {
            # Where the stand-in for ssh is, if there is one.
            "PATH": f"{self.home / 'bin'}{os.pathsep}{node.environment()['PATH']}",
            # As a shell has it: one of them works in the folder that this names.
            "PWD": str(self.work),
            "NO_COLOR": "1",
            **self._launch.variables,
        }
        process = subprocess.Popen(
            [*self._command, *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(self.home, variables),
            cwd=self.work,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            # Some leave helpers behind, which belong to the group that we started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@contextlib.contextmanager
def coding_client(name: str, home: Path, *flags: str) -> Iterator[CodingClient]:
    """`flags` are of its daemon."""
    with model_server() as model:
        client = CodingClient(name, home, model, flags)
        try:
            yield client
        finally:
            client.close()
