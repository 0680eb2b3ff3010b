"""The endpoints behind the Connect view: who is connected, and the tokens of clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp_agent.answers.budget import choose_form
from mcp_agent.calls.call import Caller
from mcp_agent.daemon import Daemon
from mcp_agent.page.endpoints import ApiRequest, BadRequest, Routes
from mcp_agent.security import auth_tokens
from mcp_agent.security.auth_tokens import Tokens
from mcp_agent.transports.http import header_text
from registry.profiles import Form

_NAME = "devbox"


class Connections:
    def __init__(self, daemon: Daemon, tokens: Tokens, connected: Callable[[], list[Caller]]) -> None:
        self._daemon = daemon
        self._tokens = tokens
        self._connected = connected

    @property
    def routes(self) -> Routes:
        return {
            ("GET", "clients"): self._list_clients,
            ("GET", "clients/known"): self._list_known,
            ("GET", "tokens"): self._list_tokens,
            ("POST", "tokens"): self._create,
            ("POST", "tokens/<name>/revoke"): self._revoke,
        }

    async def _list_clients(self, _: ApiRequest) -> dict[str, Any]:
        gate = self._daemon.gate
        return {
            "clients": [
                {
                    "token": each.name,
                    "client": each.client,
                    "transport": each.transport,
                    "profile": each.access.narrowed_to or each.access.profile or gate.profiles.active,
                    "tools": len(gate.visible(each.access)),
                    "form": choose_form(gate.form(each.access), each),
                }
                for each in self._connected()
            ]
        }

    async def _list_known(self, request: ApiRequest) -> dict[str, Any]:
        """For each program that people connect: the command that does it, and what it would write."""
        base = f"{request.scope.get('scheme', 'http')}://{header_text(request.scope, b'host')}"
        known = await asyncio.to_thread(_known, base, self._tokens.owner_file.absolute())
        return {"url": f"{base}/mcp", "known": known}

    async def _list_tokens(self, _: ApiRequest) -> dict[str, Any]:
        found = await asyncio.to_thread(auth_tokens.clients, self._tokens.clients_file)
        return {
            "owner_file": str(self._tokens.owner_file),
            "tokens": [
                {"name": each.name, "profile": each.profile, "form": each.form, "created": each.created}
                for each in found
            ],
        }

    async def _create(self, request: ApiRequest) -> dict[str, Any]:
        """A token for a client. It is in this answer and nowhere else: only its hash is kept."""
        name, profile = request.text("name"), request.optional_text("profile") or None
        if profile is not None:
            self._daemon.gate.profiles[profile]
        form = _form(request.optional_text("form") or "auto")
        token = await asyncio.to_thread(auth_tokens.create, self._tokens.clients_file, name, profile, form)
        self._put_in_force(request.by, "token_created", name)
        return {"name": name, "token": token}

    async def _revoke(self, request: ApiRequest) -> dict[str, Any]:
        name = request.named["name"]
        await asyncio.to_thread(auth_tokens.revoke, self._tokens.clients_file, name)
        self._put_in_force(request.by, "token_revoked", name)
        return {"name": name}

    def _put_in_force(self, by: str, event: str, name: str) -> None:
        self._daemon.apply_tokens(self._tokens)
        self._daemon.audit.note(event, by=by, name=name)


def _known(base: str, token_file: Path) -> list[dict[str, Any]]:
    """What `mcp-agent connect --print` prints for each; where it makes a token, there is a place for one."""
    # At first use: most daemons are never asked.
    from mcp_agent.cli.clients.config_file import ConfigEntry
    from mcp_agent.cli.clients.frameworks import PRINTED
    from mcp_agent.cli.clients.known_clients import CLIENTS, VARIABLE
    from mcp_agent.cli.clients.reach import Http, mcp_url, token_flags

    def reach(profile: str | None) -> Http:
        return Http(mcp_url(base, profile), token_file, "<token>", token_flags(token_file))

    found: list[dict[str, Any]] = []
    for client in CLIENTS:
        path = client.files[0] if client.files else client.project_file or ""
        empty = ConfigEntry(Path("/nonexistent"), client.format, (*client.keys, _NAME))
        found.append(
            {
                "id": client.id,
                "title": client.title,
                "command": f"mcp-agent connect {client.id}",
                "file": f"~/{path}" if client.files else path,
                "text": (empty.put(reach(client.profile).entry(client)).after or "").strip(),
                "variable": VARIABLE if client.secret == "variable" else None,
                "installed": client.is_installed,
                "long_results": client.long_results,
                "check": client.check,
            }
        )
    for name, write in PRINTED.items():
        text = write(_NAME, reach(None)).strip()
        found.append({"id": name, "title": name, "command": f"mcp-agent connect {name}", "text": text})
    return found


def _form(text: str) -> Form:
    match text:
        case "auto" | "json" | "text":
            return text
        case _:
            raise BadRequest(f"form is {text[:60]!r} and must be auto, json or text")
