"""Why a process could not be started, in the caller's terms."""

from __future__ import annotations

import errno
import os

from mcp_agent.sessions.session import Session
from tools.files.paths import to_wire
from tools.kit.errors import IoError, NotADirectory, ToolError, from_os_error


def spawn_error(error: OSError, session: Session) -> ToolError:
    """Why the command of `session` could not be started, in the caller's terms."""
    match error.errno:
        case errno.ENOTDIR if session.cwd.exists():
            return NotADirectory(f"cwd {to_wire(session.cwd)} is a file, not a folder", hint="pass the folder it is in")
        case errno.EMFILE | errno.ENFILE:
            return IoError(
                "the command was not started: the daemon has no file descriptors left",
                hint="stop sessions that are no longer needed, or start the daemon with a higher `ulimit -n`",
            )
        case errno.EAGAIN | errno.ENOMEM:
            return IoError(
                f"the command was not started: {os.strerror(error.errno).lower()}",
                hint="the machine has no room for another process; end some, then try again",
            )
        case errno.E2BIG:
            return IoError(
                f"the command and its environment are too long for the system ({len(session.command)} characters)",
                hint="write it to a file with fs_write and run the file",
            )
    named = session.cwd if error.filename is None else os.fsdecode(error.filename)
    return from_os_error(error, to_wire(named))
