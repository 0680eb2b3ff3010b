"""The client of mounted servers is an extra; without it a mount says what to install."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.support import ROOT
from tests.support.daemon import running

_WITHOUT_THE_CLIENT = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
sys.modules["mcp"] = None
from mcp_agent.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


async def test_a_mount_without_the_client_says_what_to_install(home: Path) -> None:
    categories = [{"id": "other", "mount": {"command": "cat"}}]
    document = {"version": 1, "activeProfile": "default", "profiles": [{"id": "default", "categories": categories}]}
    (home / "tools.json").write_text(json.dumps(document))
    with running(home, start=(sys.executable, "-c", _WITHOUT_THE_CLIENT)) as daemon:
        (line, *_) = await daemon.logged("mount.failed")
    assert line["data"]["mount"] == "other"
    assert "the client of mounted servers is not installed" in line["data"]["message"]
    assert f"install it with: {sys.executable} -m pip install" in line["data"]["message"]
