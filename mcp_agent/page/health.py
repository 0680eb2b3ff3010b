"""/health: two fields for everybody, the state of the daemon for clients with a token, all of it for its owner."""

from __future__ import annotations

import os
import time
from typing import Any

from starlette.types import Receive, Scope, Send

from mcp_agent import __version__
from mcp_agent.answers.budget import MOST_MESSAGE_BYTES
from mcp_agent.daemon import Daemon
from mcp_agent.pruning_service.remote import shown_url
from mcp_agent.security.auth_tokens import Principal
from mcp_agent.security.guard import MOST_BODY_BYTES
from mcp_agent.transports.events import MOST_CLIENTS
from mcp_agent.transports.http import send_error, send_object
from mcp_agent.transports.http_sessions import MOST_SESSIONS, HttpSessions


class HealthRoute:
    def __init__(self, daemon: Daemon, sessions: HttpSessions) -> None:
        self._daemon = daemon
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await send_error(send, 405, "use GET here", headers={"allow": "GET"})
            return
        who: Principal | None = scope["state"]["principal"]
        await send_object(send, 200, self._brief() if who is None else self.report(is_owner=who.is_owner))

    def report(self, *, is_owner: bool) -> dict[str, Any]:
        daemon = self._daemon
        profiles, service = daemon.gate.profiles, daemon.config.pruner_url
        return {
            **self._brief(),
            "pid": os.getpid(),
            "uptime_s": round(time.time() - daemon.started_at, 1),
            "registry": {
                "path": str(daemon.file.path),
                "active_profile": profiles.active,
                "reloads": daemon.reloads,
                "problems": [problem.as_object() for problem in (*daemon.problems, *profiles.warnings)],
            },
            "search": {"engine": daemon.engine.kind, "program": daemon.engine.program, "origin": daemon.engine.origin},
            "pruning": {
                "engine": "remote" if daemon.config.pruner_url else "built-in",
                "service": service and shown_url(service),
            },
            "sessions": {"running": len(daemon.sessions.live), "kept": len(daemon.sessions.all)},
            "mounts": {
                # What a server prints may have in it whatever it was given.
                name: facts if is_owner else {key: value for key, value in facts.items() if key != "stderr"}
                for name, facts in daemon.mounts.facts.items()
            },
            **({} if daemon.fleet_facts is None else {"fleet": daemon.fleet_facts()}),
            **({} if daemon.public_name is None else {"public": daemon.public_name.facts}),
            "refusals": dict(daemon.refusals.counts),
            "clients": {"sessions": len(self._sessions), "streams": daemon.hub.clients},
            "limits": {
                "body_bytes": MOST_BODY_BYTES,
                "message_bytes": MOST_MESSAGE_BYTES,
                "sessions": MOST_SESSIONS,
                "shell_sessions": daemon.sessions.limits.sessions,
            },
            "usage": self._usage(),
        }

    def _usage(self) -> list[dict[str, Any]]:
        """How much of what is bounded is in use."""
        daemon = self._daemon
        spools = sum(each.log.kept_bytes for each in daemon.sessions.all)
        counts = (
            ("Running shell sessions", len(daemon.sessions.live), daemon.sessions.limits.sessions),
            ("MCP sessions", len(self._sessions), MOST_SESSIONS),
            ("Event streams", daemon.hub.followers, MOST_CLIENTS),
        )
        sizes = (
            (
                "Output of sessions on disk",
                spools,
                daemon.sessions.limits.spool_bytes * daemon.sessions.limits.sessions,
            ),
            ("Artifacts", _artifact_bytes(daemon), daemon.config.artifacts_mb * 1_000_000),
        )
        return [
            *({"name": name, "used": used, "most": most, "unit": "count"} for name, used, most in counts),
            *({"name": name, "used": used, "most": most, "unit": "bytes"} for name, used, most in sizes),
        ]

    def _brief(self) -> dict[str, Any]:
        is_well = not any(not problem.is_warning for problem in self._daemon.problems)
        return {"status": "ok" if is_well else "degraded", "version": __version__}


def _artifact_bytes(daemon: Daemon) -> int:
    try:
        return daemon.artifacts.used_bytes()
    except OSError:
        return 0
