"""A real `mcp-agent serve` for tests, in folders of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from registry.catalog import discover
from tests.support.waiting import PATIENCE_S, eventually

COMMAND = str(Path(sys.executable).with_name("mcp-agent"))
# Every tool that there is, as the default profile lists them.
EVERY_TOOL = list(discover().names)
# The daemon with the probes of tests/support/probes beside its own tools.
WITH_PROBES = (sys.executable, str(Path(__file__).with_name("serving.py")))


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a user whose home is `home` and who has set nothing else of ours."""
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("MCP_AGENT_", "XDG_", "PYTHON", "MAKE"))
    }
    # What a result says of files depends on how fast the helper process starts. Tests that ask for it switch it on.
    return {**kept, "HOME": str(home), "MCP_AGENT_COMMAND_UNDO": "false", **(extra or {})}


@dataclass
class Daemon:
    """One running daemon, and how it is reached."""

    process: subprocess.Popen[bytes]
    url: str
    token: str
    home: Path
    tools_json: Path
    ready: dict[str, Any]
    stderr: Path
    headers: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.headers = {"Authorization": f"Bearer {self.token}"}

    def http(self, **headers: str) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.url, headers={**self.headers, **headers}, timeout=PATIENCE_S)

    async def rpc(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to one request on /rpc, whole."""
        async with self.http() as client:
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answer = await client.post("/rpc", json=message)
            found: dict[str, Any] = answer.json()
            return found

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of the same user, while the daemon runs."""
        return command(self.home, *arguments, "--tools-file", str(self.tools_json))

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stderr.read_text().splitlines() if line.startswith("{")]

    async def logged(self, *names: str) -> list[dict[str, Any]]:
        """The log lines of these events, once there is one of each; a thread writes them, a little later."""
        return await eventually(
            lambda: [line for line in self.log() if line["event"] in names],
            lambda lines: {line["event"] for line in lines} == set(names),
        )

    def save(self, document: Any) -> None:
        """Replace tools.json as an editor does: a new file that takes the old one's name."""
        text = document if isinstance(document, str) else json.dumps(document)
        fresh = self.tools_json.with_name("tools.json.editor")
        fresh.write_text(text)
        fresh.replace(self.tools_json)


def command(home: Path, *arguments: str, cwd: Path | None = None, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments],
        capture_output=True,
        text=True,
        env=environment(home, extra),
        cwd=cwd or home,
        timeout=PATIENCE_S,
        check=False,
    )


@contextlib.contextmanager
def running(
    home: Path,
    *arguments: str,
    cwd: Path | None = None,
    extra: Mapping[str, str] | None = None,
    start: Sequence[str] = (COMMAND,),
) -> Iterator[Daemon]:
    """Start a daemon on a free port and stop it at the end, with SIGTERM."""
    tools_json = home / "tools.json"
    stderr = home / "daemon.stderr"
    with stderr.open("wb") as log:
        process = subprocess.Popen(
            [*start, "serve", "--port", "0", "--tools-file", str(tools_json), *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment(home, extra),
            cwd=cwd or home,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, f"the daemon did not start: {stderr.read_text()}"
        ready = json.loads(line)
        token = (extra or {}).get("MCP_AGENT_TOKEN") or Path(ready["token_file"]).read_text().strip()
        yield Daemon(process, ready["url"], token, home, tools_json, ready, stderr)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            process.stdout.close()


@contextlib.contextmanager
def as_nobody(folder: Path, mode: int = 0o777) -> Iterator[None]:
    """Be a user without rights inside `folder`, by relative paths; the folders above it are not ours to open."""
    nobody = 65_534
    user, before = os.geteuid(), folder.stat().st_mode
    with contextlib.chdir(folder):
        folder.chmod(mode)
        os.seteuid(nobody if user == 0 else user)
        try:
            yield
        finally:
            os.seteuid(user)
            folder.chmod(before)
