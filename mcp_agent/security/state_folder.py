"""The state folder. It holds tokens, old versions of files and the output of commands: only its owner has access."""

from __future__ import annotations

import contextlib
import stat
from pathlib import Path

from mcp_agent.config import Config, state_folder


def secure_state_dir(config: Config) -> None:
    """Create the state folder with 0700; drop group and other access. A folder that the user chose keeps its mode.

    No error is raised here: what cannot be done fails again, with a message, where something is written.
    """
    folder = config.state_dir
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder == state_folder():
            folder.chmod(stat.S_IMODE(folder.stat().st_mode) & 0o700)


def mode_if_exposed(path: Path) -> int | None:
    """The mode of a file or folder that group or others have access to; None if it is private or does not exist."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None
    return mode if mode & 0o077 else None


def exposure(config: Config) -> str | None:
    """A warning if others have access to the state folder, with the command that takes it away."""
    folder = config.state_dir
    mode = mode_if_exposed(folder)
    return None if mode is None else f"others can access {folder} ({mode:04o}); run: chmod 700 {folder}"
