"""Puts the terminal component of the Tools page into what is built, so that users need no node."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TerminalComponent(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            # A checkout gets it later, in the background.
            return
        path = Path(self.root) / "mcp_agent" / "page" / "terminal_component.py"
        spec = importlib.util.spec_from_file_location("terminal_component", path)
        assert spec is not None and spec.loader is not None, "it is a Python file"  # noqa: PT018 - one claim
        component = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(component)
        try:
            component.fetch()
        except component.NotFetched as error:
            self.app.display_warning(f"without the terminal of the Tools page, which shows sessions as text: {error}")
