"""What the audit log says of the clients: who was refused and why, who was there, and what each was given."""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from mcp_agent.answers.budget import text_client
from mcp_agent.cli.tables import age
from mcp_agent.storage.audit_reader import Line, LineFilter, Trail, parse_time

_REFUSALS_SINCE = "1h"
_CLIENTS_SINCE = "24h"
_MOST_CLIENTS = 20

# What the doctor calls itself when it connects.
DOCTOR = "mcp-agent doctor"

ADVICE = {
    "no_token": "the client sends no token: it needs the header Authorization: Bearer <token>",
    "wrong_token": "the client has an old or a mistyped token; `mcp-agent token show` prints the owner's",
    "bad_header": "the client sends the token twice, or not as: Authorization: Bearer <token>",
    "host": "the client uses a name that the daemon does not answer to; start it with --allow-host NAME",
    "origin": "a web page of another site asked; if it is meant, let its server ask instead",
}


class SeenClient(Struct, eq=False):
    """One program with one token, as it was last seen."""

    program: str
    token: str
    version: str = ""
    transport: str = ""
    protocol: str = ""
    profile: str = ""
    form: str = "json"
    calls: int = 0
    failures: int = 0
    last_seen: float = 0.0

    def describe(self) -> str:
        """A sentence for people: who it is, and what it was given."""
        client = text_client(self.program)
        size = (
            f" of at most {client.most_bytes:,} bytes" if self.form == "text" and client and client.most_bytes else ""
        )
        protocol = f", MCP {self.protocol}" if self.protocol else ""
        profile = f", profile {self.profile}" if self.profile else ""
        failed = f", {self.failures} failed" if self.failures else ""
        calls = f"{self.calls} call{'s' * (self.calls != 1)}{failed}"
        given = f"token {self.token}{profile}, results as {self.form}{size}"
        return (
            f"{self.program} {self.version}".rstrip()
            + f" over {self.transport}{protocol}: {given}; {calls}, last seen {self.age()} ago"
        )

    def age(self) -> str:
        return age(max(0.0, time.time() - self.last_seen))


def refusals(audit_dir: Path) -> dict[str, tuple[int, str]]:
    """The refused logins of the last hour: by reason, how many, and the address and path of the last one."""
    counts: Counter[str] = Counter()
    last: dict[str, str] = {}
    for line in _lines(audit_dir, LineFilter(event="login_refused", since=parse_time(_REFUSALS_SINCE))):
        reason = str(line.get("reason", "?"))
        counts[reason] += int(line.get("count", 1))
        last[reason] = f"{line.get('address') or 'several addresses'} for {line.get('path')}"
    return {reason: (count, last[reason]) for reason, count in counts.items()}


def seen_clients(audit_dir: Path) -> list[SeenClient]:
    """The programs of the last day, the newest first."""
    seen: dict[tuple[str, str], SeenClient] = {}
    for line in _lines(audit_dir, LineFilter(since=parse_time(_CLIENTS_SINCE))):
        is_call = "event" not in line
        if not is_call and line["event"] != "connect":
            continue
        if line.get("program") == DOCTOR or line.get("transport") == "in process":
            continue
        name = str(line.get("program") or "") or "a program without a name"
        key = (name, str(line.get("client")))
        client = seen.setdefault(key, SeenClient(name, key[1]))
        client.transport = str(line.get("transport", client.transport))
        client.form = str(line.get("form") or client.form)
        client.last_seen = datetime.fromisoformat(line["ts"]).timestamp()
        if is_call:
            client.calls += 1
            client.failures += line.get("outcome") != "ok"
        else:
            client.protocol, client.profile = str(line.get("protocol", "")), str(line.get("profile", ""))
            client.version = str(line.get("program_version", ""))
    return sorted(seen.values(), key=lambda client: client.last_seen, reverse=True)[:_MOST_CLIENTS]


def _lines(audit_dir: Path, wanted: LineFilter) -> list[Line]:
    return Trail(audit_dir, lambda: None).last(None, wanted)
