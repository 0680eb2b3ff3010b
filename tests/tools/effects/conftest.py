"""A daemon that says what commands did, and a project that it has read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.shell_host import ShellHost, shell_host
from tests.support.waiting import eventually


class Workshop:
    """One project, and a caller of the tools that work in it."""

    def __init__(self, host: ShellHost, root: Path) -> None:
        self.host = host
        self.root = root

    async def run(self, command: str, tool: str = "shell_exec", **arguments: Any) -> dict[str, Any]:
        return await self.host.call(tool, command=command, **{"cwd": str(self.root), **arguments})

    async def is_read(self) -> None:
        """Wait until the helper knows the project and has read it."""

        async def knows() -> bool:
            return "effects" not in await self.run("true")

        await eventually(knows)

    async def undo(self, reference: str, to: str = "", **arguments: Any) -> dict[str, Any]:
        return await self.host.call(
            "fs_move", **{"from": f"undo://{reference}", "to": str(self.root / to), **arguments}
        )


@pytest.fixture
async def workshop(tmp_path: Path) -> AsyncIterator[Workshop]:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / ".git").mkdir()
    for name in "abc":
        (root / "src" / f"{name}.py").write_text(f"{name} = 1\n")
    async with shell_host(tmp_path, command_undo=True) as host:
        yield Workshop(host, root)
