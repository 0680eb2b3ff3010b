"""The endpoints behind the Connect view: who is connected, how to connect, the tokens of clients, and login links."""

from __future__ import annotations

import asyncio
import getpass
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from mcp_agent.answers.budget import choose_form
from mcp_agent.calls.call import Caller
from mcp_agent.config import Config
from mcp_agent.daemon import Daemon
from mcp_agent.page.endpoints import ApiRequest, BadRequest, Routes
from mcp_agent.security import auth_tokens
from mcp_agent.security.auth_tokens import Tokens
from mcp_agent.security.browser_logins import PAGE_PATH, TICKET_S, BrowserLogins
from mcp_agent.transports.http import header_text, scheme_of
from registry.profiles import Form

if TYPE_CHECKING:
    from mcp_agent.cli.clients.known_clients import Client
    from mcp_agent.cli.clients.reach import Reach

_NAME = "devbox"


class Connections:
    def __init__(
        self, daemon: Daemon, tokens: Tokens, logins: BrowserLogins, connected: Callable[[], list[Caller]]
    ) -> None:
        self._daemon = daemon
        self._tokens = tokens
        self._logins = logins
        self._connected = connected

    @property
    def routes(self) -> Routes:
        return {
            ("GET", "clients"): self._list_clients,
            ("GET", "clients/known"): self._list_known,
            ("GET", "tokens"): self._list_tokens,
            ("POST", "tokens"): self._create,
            ("POST", "tokens/<name>/revoke"): self._revoke,
            ("POST", "ticket"): self._create_ticket,
            ("POST", "ticket/qr"): self._create_code,
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
        base = _base(request)
        host = f"{getpass.getuser()}@{socket.gethostname()}"
        known = await asyncio.to_thread(_known, base, self._daemon.config, self._tokens.owner_file.absolute(), host)
        return {"url": f"{base}/mcp", "host": host, "known": known}

    async def _list_tokens(self, _: ApiRequest) -> dict[str, Any]:
        found = await asyncio.to_thread(self._tokens.listed)
        return {
            "owner_file": str(self._tokens.owner_file),
            "tokens": [asdict(each) for each in found],
        }

    async def _create(self, request: ApiRequest) -> dict[str, Any]:
        """A token for a client. It is in this answer and nowhere else: only its hash is kept."""
        name, profile = request.text("name"), request.optional_text("profile") or None
        if profile is not None:
            self._daemon.gate.profiles[profile]
        form = _form(request.optional_text("form") or "auto")
        lifetime_s = None if request.body.get("lifetime_s") is None else request.whole_number("lifetime_s")
        if lifetime_s is not None and lifetime_s <= 0:
            raise BadRequest("lifetime_s must be more than 0")
        file = self._tokens.clients_file
        token = await asyncio.to_thread(auth_tokens.create, file, name, profile, form, lifetime_s)
        self._put_in_force(request.by, "token_created", name=name, profile=profile)
        return {"name": name, "token": token}

    async def _revoke(self, request: ApiRequest) -> dict[str, Any]:
        name = request.named["name"]
        await asyncio.to_thread(self._tokens.revoke, name)
        self._put_in_force(request.by, "token_revoked", name=name)
        return {"name": name}

    async def _create_ticket(self, _: ApiRequest) -> dict[str, Any]:
        """A link that logs one browser in, once, for `mcp-agent open` and for the token that a person pastes."""
        return {"path": f"{PAGE_PATH}login?ticket={self._logins.create_ticket()}", "valid_s": TICKET_S}

    async def _create_code(self, request: ApiRequest) -> dict[str, Any]:
        """The same for the camera of a phone: the rows of a QR code, with the address by which the page was reached."""
        import segno

        ticket = await self._create_ticket(request)
        code = segno.make_qr(f"{_base(request)}{ticket['path']}")
        return {"rows": ["".join(map(str, row)) for row in code.matrix], "valid_s": TICKET_S}

    def _put_in_force(self, by: str, event: str, **facts: Any) -> None:
        self._daemon.apply_tokens(self._tokens)
        self._daemon.audit.note(event, by=by, **facts)


def _base(request: ApiRequest) -> str:
    """The address of the daemon as the asking browser has it."""
    return f"{scheme_of(request.scope)}://{header_text(request.scope, b'host')}"


def _known(base: str, config: Config, token_file: Path, host: str) -> list[dict[str, Any]]:
    """What `mcp-agent connect --print` prints for each, on this machine and on another one that reaches `host` by ssh.

    Where it makes a token, there is a place for one.
    """
    # At first use: most daemons are never asked.
    from mcp_agent.cli.clients.config_file import ConfigEntry
    from mcp_agent.cli.clients.frameworks import PRINTED
    from mcp_agent.cli.clients.known_clients import CLIENTS
    from mcp_agent.cli.clients.reach import Http, Stdio, by_ssh, local_stdio, mcp_url, token_flags

    def reach(profile: str | None) -> Http:
        return Http(mcp_url(base, profile), token_file, "<token>", token_flags(token_file))

    def here(client: Client) -> Reach:
        if not client.attaches:
            return reach(client.profile)
        return local_stdio(config, client.profile, is_shared=not client.files, attaches=True)

    def elsewhere(profile: str | None) -> Stdio:
        # ssh by its name: where it is on this machine says nothing about another one.
        return Stdio("ssh", by_ssh(host, profile).arguments)

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
                "text": (empty.put(here(client).entry(client)).after or "").strip(),
                "elsewhere": (empty.put(elsewhere(client.profile).entry(client)).after or "").strip(),
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
