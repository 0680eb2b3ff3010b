"""Programs of others that tests run, each installed once into the user's cache folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import platformdirs

# What others install can take minutes on a slow line; it happens once for each version.
_INSTALL_S = 1_800.0


class NotInstalled(Exception):
    """A program of somebody else cannot be had; the message says what was tried and what was said."""


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """The cached folder of that name, which `make` fills if it is not there."""
    cache = platformdirs.user_cache_path("mcp-agent-tests")
    folder = cache / name
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        # Renamed when it is whole, so a folder that is there is a folder that can be used.
        fresh = Path(tempfile.mkdtemp(dir=cache))
        try:
            make(fresh)
            fresh.rename(folder)
        except OSError:
            # Another run was faster.
            if not folder.exists():
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return folder


def python(*requirements: str) -> str:
    """The interpreter of an environment that has `requirements` and nothing of ours."""

    def make(folder: Path) -> None:
        install([sys.executable, "-m", "venv", str(folder)])
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        install([*pip, *requirements])

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return str(kept(f"{requirements[0]}-python{version}", make) / "bin" / "python")


def install(command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
    """Raises NotInstalled."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=_INSTALL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"{' '.join(command)} failed: {error}") from error
    if done.returncode:
        raise NotInstalled(f"{' '.join(command)} failed: {done.stdout}{done.stderr}")
