"""The pruner in the run of an agent: what a runner passes to its provider, and the state machine of the run.

A runner starts agents through a provider. The provider starts the MCP servers that it is given, and owns them, so
nothing is started here. The runner reports what its provider says, and gets the state of the run and its log events:

    run:init ─▶ run:mcp_pruner_disabled ─────────────────────────────────────────▶ run:shutdown
       └─────▶ run:mcp_pruner_starting ─▶ run:mcp_pruner_running ─▶ run:shutdown
                  └▶ run:mcp_pruner_disabled     └▶ run:mcp_pruner_degraded ─────▶ run:shutdown

No state is entered twice. The run goes on without the pruner in each of them.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TextIO

from msgspec import Struct

from mcp_agent.config import load
from mcp_agent.settings import DEFAULT_SERVICE, BadConfig, parse_service_url
from tools.sessions import process_end, process_tree

RunState = Literal[
    "run:init",
    "run:mcp_pruner_disabled",
    "run:mcp_pruner_starting",
    "run:mcp_pruner_running",
    "run:mcp_pruner_degraded",
    "run:shutdown",
]

SERVER_NAME = "pruner"
_ENABLED = "JEEVES_PRUNER_ENABLED"
_URL = "JEEVES_PRUNER_URL"
_TIMEOUT = "PRUNER_TIMEOUT_MS"
_PATH = "JEEVES_MCP_PRUNER_PATH"
_TRUE = frozenset(("1", "true", "yes", "on"))
_PROGRAM = "mcp-pruner"
_GRACE_S = 2.0


class McpServer(Struct, frozen=True):
    """How a provider starts a server over standard input and output."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]

    def as_object(self) -> dict[str, Any]:
        return {"command": self.command, "args": list(self.args), "env": dict(self.env)}


class PrunerRun:
    """One phase of a provider. `mcp_servers` is what to give it; the methods are what to tell us of it."""

    def __init__(self, environment: Mapping[str, str], folder: Path, events: TextIO | None = None) -> None:
        """Decide whether the agent gets the pruner for its work in `folder`.

        Events are JSON lines on `events`, or else on standard error, however the runner logs by itself.
        """
        self._events = events
        self.state: RunState = "run:init"
        self.mcp_servers: dict[str, McpServer] = {}
        self._folder = folder
        self._remaining: process_tree.ProcessId | None = None
        if not is_enabled(environment):
            self._disable("config_disabled")
            return
        try:
            server = pruner_server(environment, folder)
        except BadConfig as error:
            self._event("warn", "mcp_pruner.config_invalid", message=str(error))
            self._disable("config_invalid")
            return
        self.mcp_servers = {SERVER_NAME: server}
        self.state = "run:mcp_pruner_starting"

    def started(self) -> None:
        """The provider has its MCP servers."""
        self._expect("run:mcp_pruner_starting")
        self.state = "run:mcp_pruner_running"
        self._event("info", "mcp_pruner.ready", root=str(self._folder))

    def failed_to_start(self, message: str) -> None:
        """The provider could not start the server, or not reach it."""
        self._expect("run:mcp_pruner_starting")
        self._event("warn", "mcp_pruner.spawn_error", message=message)
        self._event("warn", "mcp_pruner.start_failed", message=message)
        self._disable("start_failed")

    def failed(
        self,
        reason: Literal["exited", "unreachable"],
        *,
        exit_code: int | None = None,
        signal: str | None = None,
        pid: int | None = None,
    ) -> None:
        """The server has ended or does not answer. The process `pid`, if given, is ended with the phase."""
        self._expect("run:mcp_pruner_running")
        self.state = "run:mcp_pruner_degraded"
        self.mcp_servers = {}
        known: dict[str, Any] = {"reason": reason, "exit_code": exit_code, "signal": signal}
        self._event("warn", "mcp_pruner.degraded", **{k: v for k, v in known.items() if v is not None})
        if pid is not None and (began := process_tree.start_time(pid)) is not None:
            # With the moment of its start: by the end of the phase the number may be another process's.
            self._remaining = process_tree.ProcessId(pid, began)

    def ended(self) -> None:
        """The provider's phase is over, whatever came of it."""
        if self.state == "run:mcp_pruner_starting":
            self.failed_to_start("the phase ended before the server was there")
        state, self.state = self.state, "run:shutdown"
        if state == "run:mcp_pruner_disabled":
            self._event("info", "mcp_pruner.not_running")
        elif state == "run:mcp_pruner_degraded":
            remaining = self._remaining
            if remaining is not None:
                process_end.end_blocking(process_end.OneProcess(remaining), _GRACE_S)
            self._event("info", "mcp_pruner.shutdown_after_degraded")

    def _event(self, level: Literal["info", "warn"], name: str, **facts: Any) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"ts": at, "level": level, "event": name, **({"data": facts} if facts else {})}
        print(json.dumps(line), file=self._events or sys.stderr, flush=True)

    def _disable(self, reason: Literal["config_disabled", "config_invalid", "start_failed"]) -> None:
        self.state = "run:mcp_pruner_disabled"
        self.mcp_servers = {}
        self._event("info", "mcp_pruner.disabled", reason=reason)

    def _expect(self, state: RunState) -> None:
        if self.state != state:
            raise RuntimeError(f"this is for {state}, and the run is in {self.state}")


def is_enabled(environment: Mapping[str, str]) -> bool:
    """Whether the agents of a runner get the pruner."""
    return environment.get(_ENABLED, "").strip().lower() in _TRUE


def pruner_server(environment: Mapping[str, str], folder: Path) -> McpServer:
    """The server for an agent that works in `folder`. Raises BadConfig if it cannot be had as it is set up."""
    try:
        url = parse_service_url(environment.get(_URL, DEFAULT_SERVICE))
    except ValueError as error:
        raise BadConfig(f"{_URL}: {error}") from None
    load({}, {name: environment[name] for name in (_TIMEOUT,) if name in environment})
    if not folder.is_dir():
        raise BadConfig(f"the agent's working directory {folder} is not a folder")
    env = {"PRUNER_URL": url, "MCP_PRUNER_CWD": str(folder.absolute())}
    return McpServer(command=str(_program(environment)), args=(), env=env)


def codex_overrides(servers: Mapping[str, McpServer]) -> list[str]:
    """The arguments that pass these servers to `codex exec`."""
    settings: list[str] = []
    for name, server in servers.items():
        settings.append(f"mcp_servers.{name}.command={_toml(server.command)}")
        if server.args:
            settings.append(f"mcp_servers.{name}.args=[{','.join(map(_toml, server.args))}]")
        settings += [f"mcp_servers.{name}.env.{key}={_toml(value)}" for key, value in server.env.items()]
    return [argument for setting in settings for argument in ("--config", setting)]


def _program(environment: Mapping[str, str]) -> Path:
    """The path of `mcp-pruner`: from the setting, beside the running interpreter, or on the PATH."""
    told = environment.get(_PATH)
    if told:
        if not _is_program(Path(told)):
            raise BadConfig(f"{_PATH}: {told[:200]} is not a program")
        return Path(told).absolute()
    beside = Path(sys.executable).with_name(_PROGRAM)
    if _is_program(beside):
        return beside
    found = shutil.which(_PROGRAM, path=environment.get("PATH", os.defpath))
    if found is None:
        raise BadConfig(f"{_PROGRAM} is neither in {beside.parent} nor on the PATH; {_PATH} can say where it is")
    return Path(found).absolute()


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _toml(text: str) -> str:
    """A TOML string. What JSON escapes in one, TOML does too; DEL is the one character that only TOML does."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
