"""The official conformance suites against a real daemon. What may fail, and why, is in tests/conformance/*.yml."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import ROOT, node, programs
from tests.support.daemon import environment
from tests.support.waiting import PATIENCE_S

_FOLDER = Path(__file__).parent
_SUITE_S = 240.0


@contextlib.contextmanager
def _serving(home: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a daemon with the suites' fixtures, and its log."""
    stderr = home / "daemon.stderr"
    with stderr.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.conformance.server.serving", "--tools-file", str(home / "tools.json")],
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment(home),
            cwd=ROOT,
        )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().decode().strip()
        assert url, f"the daemon did not start: {stderr.read_text()}"
        yield f"{url}/mcp", stderr
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
        process.stdout.close()


@pytest.mark.parametrize(
    ("suite", "scenarios", "expected"),
    [
        (programs.conformance_suite, ["--suite", "all"], "expected-failures-2025.yml"),
        (programs.next_conformance_suite, ["--requirements", "2025-11-25"], "expected-failures-2025.yml"),
        (programs.next_conformance_suite, ["--requirements", "2026-07-28"], "expected-failures-2026.yml"),
    ],
    ids=["0.1.16", "0.2.0-2025-11-25", "0.2.0-2026-07-28"],
)
def test_every_scenario_of_what_we_offer_passes(
    home: Path, suite: Callable[[], Path], scenarios: list[str], expected: str
) -> None:
    program = suite() / ".bin" / "conformance"
    with _serving(home) as (url, log):
        done = subprocess.run(
            [str(program), "server", "--url", url, *scenarios, "--expected-failures", str(_FOLDER / expected)],
            capture_output=True,
            text=True,
            env=node.environment(),
            cwd=home,
            timeout=_SUITE_S,
            check=False,
        )
        logged = [json.loads(line) for line in log.read_text().splitlines()]
    passed = set(re.findall(r"^✓ ([a-z0-9-]+):", done.stdout, re.MULTILINE))
    failed = set(re.findall(r"^✗ ([a-z0-9-]+):", done.stdout, re.MULTILINE))
    named = set(re.findall(r"^  - (\S+)$", (_FOLDER / expected).read_text(), re.MULTILINE))
    assert len(passed) > 20, f"the suite did not come to its end: {done.stdout}{done.stderr}"
    # A revision's scenarios that came after it are run and not scored by the suite; we score them too.
    assert failed - named == set()
    assert done.returncode == 0, done.stdout
    assert [line for line in logged if line["level"] == "error"] == []
