"""schemathesis reads /openapi.json and holds the daemon to it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support import programs
from tests.support.daemon import running

_EXAMPLES = 1_000 if os.environ.get("MCP_AGENT_TEST_LONG") else 50
_PATIENCE_S = 600.0


def test_the_daemon_keeps_to_its_openapi_description(home: Path) -> None:
    """With the tools that only read: what is made up here is also done."""
    program = [programs.schemathesis(), "-c", "from schemathesis.cli import schemathesis; schemathesis()"]
    with running(home, "--profile", "read-only") as daemon:
        options = ["--header", f"Authorization: Bearer {daemon.token}", "--max-examples", str(_EXAMPLES)]
        # A path can be a path and lead nowhere: no schema says which files there are.
        options += ["--exclude-checks", "positive_data_acceptance", "--generation-deterministic", "--no-color"]
        # Null for an argument that may be left out counts as absent, though no schema says so. Most made-up calls fail
        # for other reasons; a made-up search succeeds.
        searching = ["--include-operation-id", "grep", "--exclude-checks", "negative_data_rejection"]
        for chosen in (["--exclude-operation-id", "grep"], searching):
            done = subprocess.run(
                [*program, "run", f"{daemon.url}/openapi.json", *options, *chosen],
                capture_output=True,
                text=True,
                cwd=home,
                timeout=_PATIENCE_S,
                check=False,
            )
            assert done.returncode == 0, f"{done.stdout}{done.stderr}"
            assert " passed" in done.stdout
        log = daemon.stderr.read_text()
    assert "Traceback" not in log
