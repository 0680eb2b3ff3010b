"""A daemon that is in no fleet pays nothing for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.daemon import command, running

_IMPORTS = """
import sys
import mcp_agent.cli.main, mcp_agent.app, mcp_agent.cli.commands.serve, mcp_agent.routes, mcp_agent.server
print(sorted(name for name in sys.modules if name.startswith(("mcp_agent.fleet", "nats", "nkeys", "nacl"))))
"""


def test_nothing_of_the_fleet_is_imported() -> None:
    found = subprocess.run([sys.executable, "-c", _IMPORTS], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


async def test_ids_are_as_they_were(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        async with daemon.http() as client:
            started = (await client.post("/tools/shell_start_session", json={"command": "true"})).json()
            written = (await client.post("/tools/fs_write", json={"path": "a", "content": "b"})).json()
    assert started["session_id"].isalnum()
    assert written["undo_id"].isalnum()


def test_a_gateway_without_a_fleet_says_what_it_needs(tmp_path: Path) -> None:
    refused = command(tmp_path, "gateway")
    assert (refused.returncode, "--fleet nats://host:4222" in refused.stderr) == (2, True)
