"""What a member adds to the tools of its box for `box_copy`: to offer a file, and to pull one.

Only gateways call these two, and no list has them. They need no switches: a gateway may let this box send what it may
read here (`fs_read`), and receive what it may write (`fs_write`), under the same deny rules.
"""

from __future__ import annotations

from collections.abc import Awaitable

from mcp_agent.calls.call import Call, Outcome
from mcp_agent.calls.observers import AuditObserver, CallTrace
from mcp_agent.daemon import Daemon
from mcp_agent.fleet.bus import Bus
from mcp_agent.fleet.copy_receiver import RECEIVE, CopyReceiver
from mcp_agent.fleet.copy_sender import SEND, CopySender
from registry.catalog import Catalog
from registry.gate import Access, Gate, Grant, Shape
from tools.kit.spec import Tool

# The tool that a gateway must be allowed to use here.
NEEDS = {SEND: "fs_read", RECEIVE: "fs_write"}


class MemberCopies:
    """Runs the calls of gateways: these two here, and all others as the box does."""

    def __init__(self, daemon: Daemon) -> None:
        self.sender = CopySender()
        self._receiver = CopyReceiver(daemon.config.box_name, daemon.config.copies_dir)
        self._usual = daemon.dispatcher
        gate = _CopyGate(daemon.gate, Catalog((self.sender.tool, self._receiver.tool)))
        self._own = daemon.dispatcher.with_gate(gate, (CallTrace(), AuditObserver(daemon.audit, gate)))

    def join(self, bus: Bus) -> None:
        self._receiver.join(bus)

    def run(self, call: Call) -> Awaitable[Outcome]:
        return (self._own if call.tool in NEEDS else self._usual).call(call)


class _CopyGate(Gate):
    """Admits a copy if the box admits the tool that it needs."""

    def __init__(self, gate: Gate, catalog: Catalog) -> None:
        super().__init__(catalog, gate.profiles)
        self._gate = gate

    def admit(self, access: Access, name: str) -> tuple[Tool, Grant]:
        _, grant = self._gate.admit(access, NEEDS[name])
        tool = self.catalog.by_name[name]
        # A gateway reads the answer, and no model.
        return tool, grant._replace(form="json", deadline_s=tool.deadline_s)

    def form(self, access: Access) -> Shape:
        return "json"
