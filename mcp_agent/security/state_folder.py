"""The state folder: tokens, old states of files and what commands printed are in it, so it is its owner's alone."""

from __future__ import annotations

import contextlib
import stat

from mcp_agent.config import Config, state_folder


def close(config: Config) -> None:
    """Make the state folder, or take it from others who can get at it. A folder that somebody chose is left as it is.

    What cannot be done here fails again, and is told, where something is written.
    """
    folder = config.state_dir
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder == state_folder():
            folder.chmod(stat.S_IMODE(folder.stat().st_mode) & 0o700)


def open_to_others(config: Config) -> str | None:
    """What is wrong with the rights of the state folder, and what to do."""
    try:
        mode = stat.S_IMODE(config.state_dir.stat().st_mode)
    except OSError:
        return None
    return (
        f"others can get at {config.state_dir} ({mode:04o}); run: chmod 700 {config.state_dir}"
        if mode & 0o077
        else None
    )
