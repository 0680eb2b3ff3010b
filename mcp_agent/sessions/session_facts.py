"""A session as the Tools page and the command line show it."""

from __future__ import annotations

from typing import Any

from mcp_agent.sessions.session import Session


def describe_session(session: Session) -> dict[str, Any]:
    return {
        "id": session.id,
        "command": session.command,
        "cwd": str(session.cwd),
        "pid": session.pid,
        "age_s": round(session.age_s, 1),
        "running": session.is_running,
        "exit_code": session.exit_code,
        "signal": session.signal,
        "ended_by": session.ended_by if not session.is_running else None,
        "output_bytes": session.end,
        "output_path": session.output_path,
        "pty": session.has_terminal,
        "started_at": session.started_at,
        "kept_from": session.log.kept_from,
    }
