"""The endpoints behind the Sessions view: start, type, resize, and read or search what was printed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Any

from mcp_agent.calls.call import Caller
from mcp_agent.page.endpoints import ApiRequest, BadRequest, Routes
from mcp_agent.page.page_calls import PageCalls
from mcp_agent.previews.sites import Sites
from mcp_agent.security.auth_tokens import OWNER
from mcp_agent.security.guard import PREVIEW_PATH
from registry.gate import Access
from tools.kit.errors import SessionNotFound
from tools.sessions.manager import SessionManager
from tools.sessions.session import Session, describe_session

_MOST_OUTPUT_BYTES = 1024 * 1024
_MOST_MATCHES = 200
_MOST_LINE_CHARS = 400
_MOST_SIDE = 1_000
# Escape sequences of terminals, and control characters other than the tabulator.
_NOT_TEXT = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|.)?|[\x00-\x08\x0b-\x1f\x7f]"
)


class SessionViews:
    def __init__(self, sessions: SessionManager, calls: PageCalls, sites: Sites) -> None:
        self._sessions = sessions
        self._sites = sites
        self._calls = calls

    @property
    def routes(self) -> Routes:
        return {
            ("POST", "sessions"): self._start,
            ("POST", "sessions/clear"): self._clear,
            ("GET", "sessions/<id>"): self._show,
            ("GET", "sessions/<id>/ports"): self._ports,
            ("GET", "sessions/<id>/output"): self._read,
            ("GET", "sessions/<id>/search"): self._search,
            ("POST", "sessions/<id>/input"): self._type,
            ("POST", "sessions/<id>/resize"): self._resize,
        }

    async def _start(self, request: ApiRequest) -> dict[str, Any]:
        started = await self._calls.run(
            "shell_start_session",
            command=request.text("command"),
            cwd=request.optional_text("cwd"),
            pty=request.body.get("pty", True),
            cols=request.body.get("cols"),
            rows=request.body.get("rows"),
        )
        return describe_session(self._find(started["session_id"]))

    async def _clear(self, _: ApiRequest) -> dict[str, Any]:
        return {"cleared": self._sessions.forget_finished()}

    async def _show(self, request: ApiRequest) -> dict[str, Any]:
        return describe_session(self._find(request.named["id"]))

    async def _ports(self, request: ApiRequest) -> dict[str, Any]:
        """The ports that a session listens on, each with the path at which a browser sees its site."""
        session = self._find(request.named["id"])
        owner = Caller(OWNER, Access(), "page")
        found = [each for each in await self._sites.of(owner, sees_all=True) if each.started_in == session.id]
        revocations: int = request.scope["state"]["revocations"]
        return {
            "ports": [
                {
                    "port": each.port,
                    "pid": each.listener.pid,
                    "process": each.listener.program,
                    "path": f"{PREVIEW_PATH}{self._sites.add_ticket(owner, each, revocations)}/",
                }
                for each in found
            ]
        }

    async def _type(self, request: ApiRequest) -> dict[str, Any]:
        return await self._calls.run("shell_send_input", session_id=request.named["id"], input=request.text("input"))

    async def _resize(self, request: ApiRequest) -> dict[str, Any]:
        session = self._find(request.named["id"])
        columns, rows = request.whole_number("cols"), request.whole_number("rows")
        if not (1 <= columns <= _MOST_SIDE and 1 <= rows <= _MOST_SIDE):
            raise BadRequest(f"cols and rows must be from 1 to {_MOST_SIDE}")
        return {"resized": session.resize(columns, rows)}

    async def _read(self, request: ApiRequest) -> dict[str, Any]:
        session = self._find(request.named["id"])
        since = request.number_of_query("since", 0)
        most = max(1, min(request.number_of_query("most", 65_536), _MOST_OUTPUT_BYTES))
        text, begin, end = session.text(max(0, session.end + since if since < 0 else since), most)
        return {"text": text, "offset": begin, "next_offset": end, "end": session.end}

    async def _search(self, request: ApiRequest) -> dict[str, Any]:
        """The lines with a text in them, of all that is kept, newest last. Case counts only where the text has some."""
        session = self._find(request.named["id"])
        wanted = request.query.get("text", "")
        if not wanted:
            raise BadRequest("text is needed: what to look for")
        try:
            return await asyncio.to_thread(_find_lines, session.log.stored_output(), wanted)
        except OSError as error:
            raise BadRequest(f"the output cannot be read: {error}") from None

    def _find(self, session_id: str) -> Session:
        try:
            return self._sessions.find(session_id)
        except SessionNotFound as error:
            raise BadRequest(error.message, error.hint, 404) from None


def _find_lines(parts: Iterable[bytes], wanted: str) -> dict[str, Any]:
    matches: list[dict[str, Any]] = []
    ignores_case = wanted == wanted.lower()
    total = 0
    for number, line in enumerate(_lines(parts), 1):
        text = _NOT_TEXT.sub("", line)
        at = (text.lower() if ignores_case else text).find(wanted)
        if at < 0:
            continue
        total += 1
        start = max(0, at - _MOST_LINE_CHARS // 2)
        matches.append({"line": number, "text": text[start : start + _MOST_LINE_CHARS], "at": at - start})
        if len(matches) > _MOST_MATCHES:
            del matches[0]
    return {"matches": matches, "total": total}


def _lines(parts: Iterable[bytes]) -> Iterable[str]:
    rest = b""
    for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")
