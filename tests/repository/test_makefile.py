"""The Makefile, in a scratch folder that has no more than a fresh clone needs for the question."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.daemon import environment
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    return folder


def test_dev_starts_the_daemon_again_at_a_change(clone: Path, home: Path) -> None:
    (clone / ".venv").symlink_to(Path(sys.prefix))
    (clone / "pyproject.toml").touch()
    # Older than what was installed from it.
    os.utime(clone / "pyproject.toml", (0, 0))
    for name in ("mcp_agent", "registry", "tools"):
        (clone / name).mkdir()
    serving = subprocess.Popen(
        ["make", "dev"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(home, {"MCP_AGENT_PORT": "0"}),
        cwd=clone,
        start_new_session=True,
    )
    assert serving.stdout is not None

    def ready() -> Any:
        assert serving.stdout is not None
        return json.loads(next(line for line in serving.stdout if line.startswith(b"{")))

    try:
        first = ready()
        (clone / "mcp_agent" / "changed.py").write_text("x = 1\n")
        second = ready()
        assert first["event"] == second["event"] == "ready"
        assert first["pid"] != second["pid"]
    finally:
        os.killpg(serving.pid, signal.SIGINT)
        serving.communicate(timeout=PATIENCE_S)


def _make(clone: Path, python: str) -> subprocess.CompletedProcess[str]:
    program = clone / "python"
    program.write_text(f"#!/bin/sh\n{python}\n")
    program.chmod(0o755)
    (clone / "pyproject.toml").touch()
    return subprocess.run(
        ["make", "serve", "PYTHON=./python"], capture_output=True, text=True, cwd=clone, timeout=PATIENCE_S, check=False
    )


def test_a_python_that_is_too_old_is_one_sentence(clone: Path) -> None:
    done = _make(clone, "exit 1")
    assert done.returncode == 2
    sentence = "mcp-agent needs Python 3.11 or later, and ./python is not that; name another: make PYTHON=python3.12\n"
    assert done.stdout == sentence


def test_a_python_without_venv_is_one_sentence(clone: Path) -> None:
    """As on Debian, where it is a package of its own."""
    done = _make(clone, 'case "$2" in *ensurepip*) exit 1;; esac')
    assert done.returncode == 2
    assert done.stdout == "./python cannot make environments; on Debian and Ubuntu: apt install python3-venv\n"


def test_what_pip_cannot_install_fails_and_is_tried_again(clone: Path) -> None:
    """The exit code of pip is behind a pipe: it must not be lost, or the next `make serve` would start nothing."""
    venv = clone / ".venv" / "bin"
    venv.mkdir(parents=True)
    (venv / "python").write_text('#!/bin/sh\ncase "$*" in *install*) echo "ERROR: no network" >&2; exit 1;; esac\n')
    (venv / "python").chmod(0o755)
    (clone / "pyproject.toml").touch()
    for _ in range(2):
        done = subprocess.run(
            ["make", "serve"], capture_output=True, text=True, cwd=clone, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 2
        assert "pip could not install it: the lines above say why" in done.stdout
        assert "ERROR: no network" in done.stderr
