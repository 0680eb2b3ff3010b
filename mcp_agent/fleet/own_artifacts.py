"""Artifacts that a gateway keeps itself: results of its own tools, which were too large. No box is in their names."""

from __future__ import annotations

import re

from mcp_agent.calls.call import Call
from registry.catalog import Catalog
from registry.gate import Access, Gate, Grant, Shape
from tools.artifacts.artifact_read import artifact_read
from tools.kit.spec import Tool

_OWN = re.compile(r"ax://[a-z0-9_-]{1,40}/[0-9a-f]{20}")


def reads_own_artifact(call: Call) -> bool:
    """Whether a call is for an artifact of the gateway, and not for one of a box."""
    return call.tool == artifact_read.name and any(
        isinstance(value, str) and _OWN.fullmatch(value) for value in call.arguments.values()
    )


class OwnArtifactGate(Gate):
    """Admits `artifact_read` as it runs here, for whoever may use that of the boxes."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(Catalog((artifact_read,)), gate.profiles)
        self._gate = gate

    def admit(self, access: Access, name: str) -> tuple[Tool, Grant]:
        _, grant = self._gate.admit(access, name)
        return artifact_read, grant._replace(deadline_s=artifact_read.deadline_s)

    def form(self, access: Access) -> Shape:
        return self._gate.form(access)
