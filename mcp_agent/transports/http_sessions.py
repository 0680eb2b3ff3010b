"""The sessions of handshake clients on /mcp: a bounded table (LRU), each session bound to its token.

A session id is a handle and no proof: every request is authenticated by its token, and a session answers only to
the token that opened it. An id that this daemon does not know is accepted, because a restart of the daemon would
otherwise break every connected client; what that client said of itself is on record (`session_records`). An id that was
ended on purpose stays ended.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

from mcp_agent.calls.call import Caller
from mcp_agent.events.hub import EventHub, Subscription
from mcp_agent.events.types import ToolsChanged
from mcp_agent.protocol.conversation import Conversation
from mcp_agent.protocol.eras import LATEST_HANDSHAKE
from mcp_agent.protocol.jsonrpc import RequestId
from mcp_agent.transports.exchange import Exchange
from mcp_agent.transports.session_records import SessionRecord, SessionRecords
from mcp_agent.transports.sse_frames import Replay, new_stream

MOST_SESSIONS = 200
IDLE_S = 900.0
# A client whose own stream broke comes back within seconds, or not at all.
AWAY_S = 30.0
_MOST_ENDED = 1_000
_ID = re.compile(r"[A-Za-z0-9_-]{22,64}")


class HttpSession:
    def __init__(self, session_id: str, owner: str, conversation: Conversation, subscription: Subscription) -> None:
        self.id = session_id
        self.owner = owner
        self.conversation = conversation
        self.subscription = subscription
        # The caller of its last request.
        self.who: Caller | None = None
        self.in_flight: dict[RequestId, Exchange] = {}
        self.replay = Replay()
        # The stream that the client opens with GET, and how many messages it has carried.
        self.stream = new_stream("session")
        self.said = 0
        self.open_streams = 0
        # Runs from the end of the last stream on, until the client sends a request or opens a stream.
        self.away: asyncio.TimerHandle | None = None
        self.used_at = time.monotonic()

    @property
    def is_busy(self) -> bool:
        return bool(self.in_flight or self.open_streams)


class HttpSessions:
    """The sessions of one daemon, least recently used first."""

    def __init__(
        self,
        hub: EventHub,
        ended: Callable[[str], None] = lambda session_id: None,
        away_s: float = AWAY_S,
        records: SessionRecords | None = None,
    ) -> None:
        """`ended` is called with the id of a session whose client has left: it said so, or was away for `away_s`."""
        self._hub = hub
        self._records = records or SessionRecords(None)
        self._on_ended = ended
        self._away_s = away_s
        self._sessions: OrderedDict[str, HttpSession] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def callers(self) -> list[Caller]:
        """Who is connected: one for each session that has sent a request."""
        return [each.who.with_client(each.conversation.client) for each in self._sessions.values() if each.who]

    def open(self, owner: str) -> HttpSession | None:
        """A new session, or None if every place is taken by one that is in use."""
        return self._open(secrets.token_urlsafe(24), owner, Conversation(LATEST_HANDSHAKE))

    def remember(self, session: HttpSession) -> None:
        """Keep what the client has said of itself for the next start of the daemon."""
        self._records.keep(session.id, SessionRecord.of(session.owner, session.conversation))

    def find(self, session_id: str, owner: str, version: str) -> HttpSession | None:
        """The session of that id, opened if it is unknown; None if it was ended or belongs to another token."""
        session = self._sessions.get(session_id)
        if session is None:
            if session_id in self._ended or not _ID.fullmatch(session_id):
                return None
            return self._take_up(session_id, owner, version)
        if session.owner != owner:
            return None
        session.used_at = time.monotonic()
        self._sessions.move_to_end(session_id)
        return session

    def stream_ended(self, session: HttpSession) -> None:
        """Start the timer after which a client that opens no other stream and sends no request counts as gone."""
        session.used_at = time.monotonic()
        if session.id in self._sessions and session.away is None:
            session.away = asyncio.get_running_loop().call_later(self._away_s, self._check_away, session)

    def end(self, session: HttpSession) -> None:
        """End a session and its streams. Its id is not accepted again."""
        self._drop(session)
        self._records.drop(session.id)
        self._ended[session.id] = None
        while len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)

    def _take_up(self, session_id: str, owner: str, version: str) -> HttpSession | None:
        """Go on with a session from before a restart, or from before it was dropped for others."""
        kept = self._records.find(session_id)
        if kept is not None and kept.owner != owner:
            return None
        conversation = Conversation(version) if kept is None else kept.conversation()
        session = self._open(session_id, owner, conversation)
        if session is not None:
            # What the client was told of tools may be out of date.
            session.subscription.offer(ToolsChanged())
        return session

    def _open(self, session_id: str, owner: str, conversation: Conversation) -> HttpSession | None:
        self._make_room()
        if len(self._sessions) >= MOST_SESSIONS:
            return None
        session = self._sessions[session_id] = HttpSession(session_id, owner, conversation, self._hub.subscribe())
        return session

    def _check_away(self, session: HttpSession) -> None:
        session.away = None
        if session.open_streams:
            return
        left_s = self._away_s - (time.monotonic() - session.used_at)
        if session.in_flight or left_s > 0:
            session.away = asyncio.get_running_loop().call_later(max(left_s, 1.0), self._check_away, session)
        else:
            # The id still works: only what the client left running ends.
            self._on_ended(session.id)

    def _make_room(self) -> None:
        now = time.monotonic()
        for session in list(self._sessions.values()):
            is_full = len(self._sessions) >= MOST_SESSIONS
            if not session.is_busy and (is_full or now - session.used_at > IDLE_S):
                self._drop(session)

    def _drop(self, session: HttpSession) -> None:
        self._sessions.pop(session.id, None)
        if session.away is not None:
            session.away.cancel()
        session.subscription.close()
        self._on_ended(session.id)
