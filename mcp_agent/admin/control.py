"""/api: the command line and the Tools page control a running daemon with it. Only the owner's token may use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.types import Receive, Scope, Send

from mcp_agent import COMMAND_AGENT
from mcp_agent.admin.health import Health
from mcp_agent.daemon import Daemon
from mcp_agent.protocol import jsonrpc
from mcp_agent.protocol.jsonrpc import RpcError
from mcp_agent.sessions.session import Session
from mcp_agent.transports.http import ClientLeft, header, principal, read_body, send_error, send_object
from registry.deny_rules import describe_rules
from registry.profiles import BadRegistry, Profile, Profiles, UnknownName
from tools.kit.errors import InvalidParams, SessionNotFound
from tools.shell.session_tools import signal_number


class _BadRequest(Exception):
    def __init__(self, message: str, hint: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.message, self.hint, self.status = message, hint, status


class Control:
    """The ASGI application behind /api/…"""

    def __init__(self, daemon: Daemon, health: Health) -> None:
        self._daemon = daemon
        self._health = health

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not principal(scope).is_owner:
            await send_error(send, 403, "only the owner's token may use /api")
            return
        path = scope["path"].removeprefix("/api/").rstrip("/")
        try:
            by = _requester(scope)
            match scope["method"], path.split("/"):
                case "GET", ["status"]:
                    answer = self._health.report()
                case "GET", ["profiles"]:
                    answer = self._profiles()
                case "GET", ["profiles", profile_id]:
                    answer = self.profile(profile_id)
                case "GET", ["sessions"]:
                    answer = {"sessions": [_session(each) for each in self._daemon.sessions.all]}
                case "POST", ["sessions", session_id, "stop"]:
                    answer = await self._stop(session_id, await _body(receive))
                case "POST", ["profiles", "use"]:
                    answer = await self._use(await _body(receive), by)
                case "POST", ["switch"]:
                    answer = await self._switch(await _body(receive), by)
                case _, ["status"] | ["profiles"] | ["switch"] | ["profiles", _] | ["sessions"] | [
                    "sessions",
                    _,
                    "stop",
                ]:
                    raise _BadRequest(f"{scope['method']} is not for /api/{path}", status=405)
                case _:
                    raise _BadRequest(
                        f"there is no /api/{path[:100]}",
                        "GET /api/status, /api/profiles, /api/profiles/<id>, /api/sessions; "
                        "POST /api/profiles/use, /api/switch, /api/sessions/<id>/stop",
                        404,
                    )
        except ClientLeft:
            return
        except _BadRequest as error:
            await send_error(send, error.status, error.message, error.hint)
        except UnknownName as error:
            await send_error(send, 404, error.message, error.hint)
        except BadRegistry as error:
            listed = "; ".join(map(str, error.problems))
            problems = [problem.as_object() for problem in error.problems]
            message = f"{self._daemon.file.path} is broken: {listed}"
            await send_object(send, 409, {"error": {"message": message, "problems": problems}})
        else:
            await send_object(send, 200, answer)

    def _profiles(self) -> dict[str, Any]:
        profiles = self._daemon.gate.profiles
        return {
            "active": profiles.active,
            "profiles": [self._profile_summary(each) for each in profiles.by_id.values()],
        }

    def _profile_summary(self, profile: Profile) -> dict[str, Any]:
        return {
            "id": profile.id,
            "label": profile.label,
            "description": profile.description,
            "enabled": profile.enabled,
            "shipped": profile.is_shipped,
        }

    def profile(self, profile_id: str) -> dict[str, Any]:
        profile = self._daemon.gate.profiles[profile_id]
        return {
            **self._profile_summary(profile),
            "deny": {"paths": describe_rules(profile.deny.paths), "commands": describe_rules(profile.deny.commands)},
            "categories": [
                {
                    "id": category,
                    "enabled": (named := profile.categories.get(category)) is None or named.enabled,
                    "tools": [{"name": tool.name, "enabled": profile.switch(tool) != "tool"} for tool in tools],
                }
                for category, tools in self._daemon.gate.catalog.categories.items()
            ],
        }

    async def _stop(self, session_id: str, body: dict[str, Any]) -> dict[str, Any]:
        name = _field(body, "signal", str) if body.get("signal") is not None else "TERM"
        try:
            session = self._daemon.sessions.find(session_id)
            escalated = await session.stop(signal_number(name))
        except SessionNotFound as error:
            raise _BadRequest(error.message, error.hint, 404) from None
        except InvalidParams as error:
            raise _BadRequest(error.message) from None
        return {**_session(session), "escalated": escalated}

    async def _use(self, body: dict[str, Any], by: str) -> dict[str, Any]:
        profile_id = _field(body, "profile", str)
        return await self._change(lambda: self._daemon.file.use_profile(profile_id), by)

    async def _switch(self, body: dict[str, Any], by: str) -> dict[str, Any]:
        target, enabled = _field(body, "target", str), _field(body, "enabled", bool)
        profile_id = _field(body, "profile", str) if body.get("profile") is not None else None
        return await self._change(lambda: self._daemon.file.switch(target, enabled, profile_id), by)

    async def _change(self, change: Callable[[], Profiles], by: str) -> dict[str, Any]:
        """Save the change, apply it at once, and answer with the profiles in force."""
        await self._daemon.change(change, by)
        return self._profiles()


def _requester(scope: Scope) -> str:
    """Who asks for a change, for the audit log: one of our commands, or another program with the token."""
    program = header(scope, b"user-agent") or b""
    return "command" if program.startswith(COMMAND_AGENT.encode()) else "api"


def _session(session: Session) -> dict[str, Any]:
    return {
        "id": session.id,
        "command": session.command,
        "cwd": str(session.cwd),
        "pid": session.pid,
        "age_s": round(session.age_s, 1),
        "running": session.is_running,
        "exit_code": session.exit_code,
        "signal": session.signal,
        "output_bytes": session.end,
        "output_path": session.output_path,
    }


async def _body(receive: Receive) -> dict[str, Any]:
    try:
        value = jsonrpc.decode(await read_body(receive))
    except RpcError as error:
        raise _BadRequest(error.message) from None
    if not isinstance(value, dict):
        raise _BadRequest("the body must be a JSON object")
    return value


def _field(body: dict[str, Any], name: str, kind: type) -> Any:
    value = body.get(name)
    if isinstance(value, kind):
        return value
    raise _BadRequest(f"{name} is needed and must be {'true or false' if kind is bool else 'a string'}")
