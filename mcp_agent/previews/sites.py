"""The sites of a daemon: the ports on which processes of its sessions, commands and shells listen.

A site is shown to the token and the user that its process was started for. What a process is, its tag says: a server
that was started in the background outlives the command that started it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from typing import NamedTuple

from mcp_agent.calls.call import Caller
from registry.gate import Gate
from tools.sessions import process_tree
from tools.sessions.listening import PortListener, find_listeners
from tools.sessions.manager import SessionManager
from tools.sessions.origin import Origin
from tools.sessions.session import Session

# A page asks for many files at once, and each is only given while its process listens.
_LOOK_EVERY_S = 1.0
_MOST_ORIGINS = 2_000
_MOST_TICKETS = 200
TICKET_IDLE_S = 3_600.0


class Site(NamedTuple):
    """A port, who listens there, and for whom it was started in which session, command or shell."""

    listener: PortListener
    started_in: str
    origin: Origin

    @property
    def port(self) -> int:
        return self.listener.port


class _Ticket(NamedTuple):
    person: Caller
    site: Site
    revocations: int
    used_at: float


class Sites:
    def __init__(self, sessions: SessionManager, gate: Gate) -> None:
        self._sessions = sessions
        self._gate = gate
        # Of the commands of calls that have ended, and of the shells of persons: oldest first.
        self._origins: OrderedDict[str, Origin] = OrderedDict()
        self._tickets: OrderedDict[str, _Ticket] = OrderedDict()
        self._looked_at = -_LOOK_EVERY_S
        self._found: list[Site] = []
        self._looking: asyncio.Task[list[Site]] | None = None
        sessions.on_release.append(self._note_command)

    def is_allowed(self, person: Caller) -> bool:
        return self._gate.shows_sites(person.access)

    def note_shell(self, name: str, origin: Origin) -> None:
        """Whose shell a program of the daemon is."""
        self._origins[name] = origin
        while len(self._origins) > _MOST_ORIGINS:
            self._origins.popitem(last=False)

    async def of(self, person: Caller, *, sees_all: bool = False) -> list[Site]:
        """The sites of a person: of the chat, where one is named. Nothing where the switch is off."""
        if not self.is_allowed(person):
            return []
        every = await self._all()
        origin = person.origin
        return [each for each in every if sees_all or _is_for(each.origin, origin)]

    async def find(self, person: Caller, port: int, *, sees_all: bool = False) -> Site | None:
        return next((each for each in await self.of(person, sees_all=sees_all) if each.port == port), None)

    def add_ticket(self, person: Caller, site: Site, revocations: int) -> str:
        """A text that stands for a site in a URL: whoever has it sees the site and nothing else, while it listens."""
        for ticket, known in self._tickets.items():
            if (known.person.origin, known.site, known.revocations) == (person.origin, site, revocations):
                return ticket
        ticket = secrets.token_urlsafe(24)
        self._tickets[ticket] = _Ticket(person, site, revocations, time.monotonic())
        while len(self._tickets) > _MOST_TICKETS:
            self._tickets.popitem(last=False)
        return ticket

    async def redeem(self, ticket: str, revocations: int) -> tuple[Caller, Site] | None:
        """Whom a ticket was made for, and its site; None if it has ended, or whoever made it may see it no more."""
        known = self._tickets.get(ticket)
        if known is None:
            return None
        now = time.monotonic()
        is_over = known.revocations != revocations or now - known.used_at > TICKET_IDLE_S
        if is_over or not self.is_allowed(known.person) or known.site not in await self._all():
            self._tickets.pop(ticket, None)
            return None
        self._tickets[ticket] = known._replace(used_at=now)
        return known.person, known.site

    async def _all(self) -> list[Site]:
        if time.monotonic() - self._looked_at < _LOOK_EVERY_S:
            return self._found
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(self._looking)

    async def _look(self) -> list[Site]:
        found, names = await asyncio.to_thread(self._find)
        live = {each.id: each.origin for each in (*self._sessions.all, *self._sessions.calls)}
        origins = {**self._origins, **live}
        self._found = [
            Site(each, name, origins[name]) for each in found if (name := names.get(each.pid, "")) in origins
        ]
        self._looked_at = time.monotonic()
        return self._found

    def _find(self) -> tuple[list[PortListener], dict[int, str]]:
        names = process_tree.tagged(self._sessions.tag_prefix)
        return find_listeners(names), names

    def _note_command(self, session: Session) -> None:
        self.note_shell(session.id, session.origin)


def _is_for(origin: Origin, person: Origin) -> bool:
    is_person = (origin.token, origin.user) == (person.token, person.user)
    return is_person and person.chat in ("", origin.chat)
