"""What a gateway and a member say to each other about the output of sessions, on the subject `read`.

The output stays on the box. A watcher at the gateway opens a watch at a position and reads on by long poll, several
reads at a time; the box answers them in order. A position is the number of the last event that the watcher has, and
survives everything but the box: an answer that was lost, a gateway that died, or a watch that was given up for want of
reads is replaced by a new watch at the last position.

    gateway                                      member
    {"watch", "open": {…}, "session", "form"} →  {"is": "begins", "at": {…}}, or {"is": "none"}: no such session
    {"watch", "hold", "most"}                 →  {"is": "output", "seq", "frames": […], "rest": bytes} and bytes
                                                 {"is": "idle", "at"}: no session is left that could say more
                                                 {"is": "ends"}: the box stops, and this was all
    {"watch", "close": true}                     no answer
    any                                       →  {"is": "unknown"}, {"is": "off"}, {"is": "busy"} or {"is": "bad"}

To open: {"after": number}, {"since": offset} in one session, or {"young_s": age}: sessions up to that age from their
first byte on and older ones from now on.
"""

from __future__ import annotations

from typing import Any, Literal

from mcp_agent.fleet.call_protocol import MOST_PIECE_BYTES

Form = Literal["frames", "tail"]
Opening = dict[str, Any]

# A watch whose reads stay away so long is given up. Its watcher opens another one.
WATCH_LEASE_S = 20.0
MOST_READS = 8
# Rows in one answer; so the head of a message stays small beside its bytes.
MOST_FRAMES = 4_000
MOST_TAIL_BYTES = 256 * 1024


def answer_bytes(max_payload: int, asked: Any) -> int:
    """How many bytes an answer may have behind its head."""
    most = min(MOST_PIECE_BYTES, max(1_000, int(max_payload * 0.85)))
    return min(most, asked) if isinstance(asked, int) and asked >= 1_000 else most
