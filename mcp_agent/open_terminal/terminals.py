"""A shell for a person, on a WebSocket: each has a terminal of its own, which ends with its connection.

The page asks for an id and then connects to it; until then nothing runs. The first message has the token, because a
browser cannot put one into the head of a WebSocket. After that, binary messages are what is typed and what is shown,
and text messages are JSON: a new size of the terminal, or a sign of life.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from mcp_agent.calls.call import OPEN_TERMINAL, Call, Caller
from mcp_agent.daemon import Daemon
from mcp_agent.open_terminal.person_shell import BAD_TOKEN, FORBIDDEN, GONE, UNKNOWN, Closed, PersonShell, read_object
from mcp_agent.open_terminal.requests import TerminalRefusal, TerminalRequest
from mcp_agent.previews.sites import Sites
from mcp_agent.protocol.methods import new_call_id
from mcp_agent.security.auth_tokens import Principal
from mcp_agent.security.guard import refuse_websocket
from mcp_agent.transports.http import caller, query_value
from tools.context import ToolContext
from tools.kit.errors import Denied, ToolDisabled, ToolError
from tools.kit.results import Result
from tools.kit.spec import Tool
from tools.sessions.process import Terminal
from tools.shell.shell_exec import folder_for

MOST_TERMINALS = 16
MOST_OF_ONE = 8
_MOST_UNNAMED = 64
# A page connects at once; an id that nobody connects to is given back.
_UNUSED_S = 30.0
NAMED_WITHIN_S = 5.0
# A chat has no id before its first message. With that message the page connects anew, and goes on with its shell.
_PARKED_S = 10.0
_CLOSES_WITHIN_S = 1.0
_MOST_CHATS = 1_000
_START, _INPUT = "shell_start_session", "shell_send_input"


class _StartFolder(Result, frozen=True):
    """Where a shell may be started."""

    folder: Path

    def render(self) -> str:
        return str(self.folder)


class _Reserved(Struct, frozen=True):
    person: Caller
    folder: str
    expiry: asyncio.TimerHandle


class Terminals:
    """The terminals of all persons. An id belongs to the token, the user and the chat that asked for it."""

    def __init__(self, daemon: Daemon, sites: Sites) -> None:
        self._daemon = daemon
        self._sites = sites
        self._reserved: dict[str, _Reserved] = {}
        self._open: dict[str, PersonShell] = {}
        self._unnamed = 0
        # Shells whose page has left, by token and user; and when each chat was first heard of.
        self._parked: dict[tuple[str, str], PersonShell] = {}
        self._one_was_parked = asyncio.Event()
        self._chats: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        self._numbers = itertools.count(1)

    def note_chat(self, person: Caller) -> None:
        """Note when a chat was first heard of."""
        if person.chat:
            chat = person.name, person.user, person.chat
            self._chats.setdefault(chat, asyncio.get_running_loop().time())
            self._chats.move_to_end(chat)
            if len(self._chats) > _MOST_CHATS:
                self._chats.popitem(last=False)

    def is_allowed(self, person: Caller) -> bool:
        """Whether the person may have a shell: may start sessions and write to them."""
        try:
            self._admit(person)
        except ToolDisabled:
            return False
        return True

    def reserve(self, request: TerminalRequest, folder: str) -> dict[str, Any]:
        """An id to connect to. Raises TerminalRefusal."""
        person = request.person
        try:
            self._admit(person)
        except ToolDisabled as error:
            raise TerminalRefusal.of(error) from error
        held = [*(each.person for each in self._reserved.values()), *(each.person for each in self._open.values())]
        own = [each for each in held if (each.name, each.user) == (person.name, person.user)]
        if len(held) >= MOST_TERMINALS or len(own) >= MOST_OF_ONE:
            most = f"{MOST_OF_ONE} of one user, and {MOST_TERMINALS} in all"
            raise TerminalRefusal(429, f"too many terminals are open: there may be {most}", "close one in another chat")
        terminal_id = secrets.token_urlsafe(16)
        expiry = asyncio.get_running_loop().call_later(_UNUSED_S, self._reserved.pop, terminal_id, None)
        self._reserved[terminal_id] = _Reserved(person, folder, expiry)
        return {"id": terminal_id}

    def drop(self, request: TerminalRequest, terminal_id: str) -> dict[str, Any]:
        """Give an id back, and end what runs there. Raises TerminalRefusal."""
        reserved, shell = self._reserved.get(terminal_id), self._open.get(terminal_id)
        held = reserved or shell
        if held is None or held.person.origin != request.person.origin:
            raise TerminalRefusal(404, "there is no such terminal")
        if reserved is not None:
            del self._reserved[terminal_id]
            reserved.expiry.cancel()
        if shell is not None:
            shell.end(GONE, "the terminal was closed")
        return {"id": terminal_id}

    async def attach(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket. However it ends, its id is given back and its shell has ended."""
        if self._unnamed >= _MOST_UNNAMED:
            await refuse_websocket(send, 503, "too many terminals are being opened at once")
            return
        reserved = self._reserved.pop(scope["path"].rpartition("/")[2], None)
        if reserved is not None:
            reserved.expiry.cancel()
        await receive()
        await send({"type": "websocket.accept"})
        try:
            person = await self._name(scope, receive)
            if reserved is None or reserved.person.origin != person.origin:
                raise Closed(UNKNOWN, "there is no such terminal")
            await self._serve(reserved, scope, receive, send)
        except Closed as closed:
            if closed.code is not None:
                await send({"type": "websocket.close", "code": closed.code, "reason": closed.reason[:100]})

    async def _name(self, scope: Scope, receive: Receive) -> Caller:
        """Who is at the other end, by the first message. Raises Closed."""
        self._unnamed += 1
        try:
            async with asyncio.timeout(NAMED_WITHIN_S):
                said = read_object(await receive())
        except TimeoutError:
            raise Closed(BAD_TOKEN, f"no token came within {NAMED_WITHIN_S:g} s") from None
        finally:
            self._unnamed -= 1
        token = said.get("token")
        if said.get("type") != "auth" or not isinstance(token, str):
            raise Closed(BAD_TOKEN, "the first message must have the token")
        state = scope["state"]
        identify: Callable[[bytes], Principal | None] = state["identify"]
        state["principal"] = identify(token.encode("utf-8", "replace"))
        if state["principal"] is None:
            raise Closed(BAD_TOKEN, "the token is not valid")
        # Open WebUI says user and chat in headers; a browser that connects by itself can say them only here.
        claimed = {b"x-session-id": said.get("chat_id"), b"x-user-id": query_value(scope, "user_id")}
        claims = {name: value.encode() for name, value in claimed.items() if isinstance(value, str)}
        state["headers"] = {**claims, **state["headers"]}
        return caller(scope, OPEN_TERMINAL)

    async def _serve(self, reserved: _Reserved, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a shell until one side ends. Raises Closed."""
        person, state = reserved.person, scope["state"]
        parked = await self._take_parked(person)
        if parked is not None:
            parked.move(person, receive, send)
        shell = parked or PersonShell(person, receive, send, is_allowed=self.is_allowed, check_line=self._check_line)
        is_kept = False
        terminal_id = scope["path"].rpartition("/")[2]
        self._open[terminal_id] = shell
        try:
            with state["streams"].register(
                person.name,
                state["revocations"],
                lambda: shell.end(FORBIDDEN, "the token is no longer valid"),
                lambda: person,
            ) as is_valid:
                if not is_valid:
                    raise Closed(FORBIDDEN, "the token is no longer valid")
                if parked is None:
                    await self._start(shell, reserved)
                try:
                    await shell.run()
                except Closed as closed:
                    has_left = closed.code is None and not person.chat and shell.typed_bytes > 0
                    is_kept = has_left and await self._park(shell)
                    raise
        finally:
            del self._open[terminal_id]
            if shell.program is not None and not is_kept:
                await shell.program.hang_up()
                self._daemon.audit.note(
                    "terminal_closed",
                    client=person.name,
                    claimed_user=person.user,
                    typed_bytes=shell.typed_bytes,
                    shown_bytes=shell.shown_bytes,
                )

    async def _park(self, shell: PersonShell) -> bool:
        """Keep a shell for the page that goes on with it. Whether one did."""
        first = shell.person
        who = first.name, first.user
        shell.park()
        self._parked[who] = shell
        self._one_was_parked.set()
        self._one_was_parked = asyncio.Event()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PARKED_S):
                await shell.is_released.wait()
        if self._parked.get(who) is shell:
            del self._parked[who]
        return shell.person is not first

    async def _take_parked(self, person: Caller) -> PersonShell | None:
        """The shell that the person has typed into before the first message of this chat."""
        now = asyncio.get_running_loop().time
        who = person.name, person.user
        is_new = now() - self._chats.get((*who, person.chat), now()) < _PARKED_S
        if not person.chat or not is_new:
            return None

        def is_there() -> bool:
            return any(
                (each.person.name, each.person.user, each.person.chat) == (*who, "") and each.typed_bytes > 0
                for each in self._open.values()
            )

        ends = now() + _CLOSES_WITHIN_S
        # The old connection is closed on its way through Open WebUI, and may be later than the new one.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(ends):
                while who not in self._parked and is_there():
                    await self._one_was_parked.wait()
        return self._parked.pop(who, None)

    async def _start(self, shell: PersonShell, reserved: _Reserved) -> None:
        """Start the shell as a call of the tool that starts sessions: the same rules, and a line in the audit log."""
        program = os.environ.get("SHELL") or "/bin/sh"

        def work(ctx: ToolContext, tool: Tool) -> _StartFolder:
            ctx.check_command(program)
            return _StartFolder(folder_for(ctx, reserved.folder))

        if self._daemon.gate.admit(reserved.person.access, _START)[1].asks:
            await shell.say("the owner is asked whether this shell may start")
        call = Call(new_call_id(), reserved.person, _START, {"command": program, "cwd": reserved.folder, "pty": True})
        try:
            place = await self._daemon.dispatcher.run_as(call, work)
            name = f"terminal{next(self._numbers)}"
            self._sites.note_shell(name, reserved.person.origin)
            shell.program = self._daemon.sessions.start_program(
                name,
                (program,),
                place.folder,
                {},
                on_output=shell.on_output,
                on_exit=shell.on_exit,
                terminal=Terminal(80, 24),
            )
        except ToolError as error:
            await shell.say(error.message)
            raise Closed(FORBIDDEN, error.message) from error
        except OSError as error:
            message = f"{program} cannot be started: {(error.strerror or str(error)).lower()}"
            await shell.say(message)
            raise Closed(FORBIDDEN, message) from error

    async def _check_line(self, person: Caller, line: str) -> None:
        """Raise ToolError for a line that a rule denies, or that the owner does not approve where one asks.

        The audit log then has a call of the tool that sends input.
        """
        tool, grant = self._daemon.gate.admit(person.access, _INPUT)
        error: Denied | None = None
        try:
            if grant.deny.commands is not None:
                grant.deny.commands.check(line)
        except Denied as denied:
            error = denied
        asks = any(each.of_rules.reason(tool.name, line, is_plain=False) for each in grant.asks or ())

        def work(ctx: ToolContext, _: Tool) -> _StartFolder:
            if error is not None:
                raise error
            return _StartFolder(Path())

        if error is not None or asks:
            await self._daemon.dispatcher.run_as(Call(new_call_id(), person, _INPUT, {"input": line}), work)

    def _admit(self, person: Caller) -> None:
        """Raise ToolDisabled unless the person may have a shell."""
        for name in (_START, _INPUT):
            self._daemon.gate.admit(person.access, name)
