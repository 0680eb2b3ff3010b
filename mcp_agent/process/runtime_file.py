"""How the one daemon of a state folder is found: a lock that it holds, and a file with its address."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mcp_agent import __version__
from mcp_agent.process.logs import event
from registry.user_error import UserError
from tools.files import disk
from tools.sessions.process_tree import ProcessId, is_alive, start_time

if TYPE_CHECKING:
    # The settings know the levels of the log, which is in this room.
    from mcp_agent.config import Config

log = logging.getLogger(__name__)


class RuntimeFacts(Struct, frozen=True):
    """What the running daemon says of itself.

    `url` is empty where it has no port, `token_file` where it has its token from the environment. `started` tells it
    from a later process with the same pid.
    """

    url: str
    pid: int
    started: int
    config: str
    token_file: str | None = None
    version: str = __version__
    # The command line and the folder that it was started with, so that it can be started so again.
    arguments: tuple[str, ...] = ("serve",)
    folder: str = "/"


def claim_state_dir(config: Config) -> None:
    """Make this process the only `serve` of its state folder, until it ends. Raises UserError if there is another.

    Only `serve` claims the folder: clients start several `stdio` and `mcp-pruner` side by side, which share it.
    """
    path = config.lock_file
    try:
        # Never closed. The kernel releases the lock when the process ends, however it ends.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        is_ours = disk.lock(descriptor, wait=False)
    except OSError as error:
        raise UserError(f"mcp-agent cannot start: {error}") from None
    # Somebody may have deleted the file that a running daemon holds the lock of.
    first = any_daemon(config.runtime_file)
    if is_ours and first is None:
        return
    os.close(descriptor)
    if first is None:
        where, advice = "it is still starting", "wait for it"
    else:
        where = f"{first.url or 'without a port'}, pid {first.pid}"
        advice = "use that one as it is, or end it with: mcp-agent stop"
    raise UserError(
        f"mcp-agent runs already: another daemon uses the state folder {config.state_dir} ({where}); {advice}. "
        "A second one needs a folder and a port of its own: --state-dir, --port"
    )


def running_daemon(runtime_file: Path) -> RuntimeFacts | None:
    """The running daemon; None if there is none to ask. Raises UserError as `any_daemon` does."""
    found = any_daemon(runtime_file)
    return found if found is not None and found.url else None


def runs_without_port(runtime_file: Path) -> bool:
    """Whether there is a daemon that cannot be asked anything: a box of a fleet with `--no-listen`."""
    found = any_daemon(runtime_file)
    return found is not None and not found.url


def any_daemon(runtime_file: Path) -> RuntimeFacts | None:
    """What is in the file of a daemon that runs, also of one without a port. A zombie does not run.

    Raises UserError if another user can write the file, because the token is sent to the address in it.
    """
    try:
        with open(disk.open_regular(runtime_file), "rb") as file:
            status = os.fstat(file.fileno())
            runtime = msgspec.json.decode(file.read(), type=RuntimeFacts)
        if status.st_mode & 0o022 or status.st_uid not in (os.geteuid(), runtime_file.parent.stat().st_uid):
            raise UserError(
                f"another user can write {runtime_file}, and the token is sent to the address in it; delete it"
            )
        return runtime if is_alive(ProcessId(runtime.pid, runtime.started)) else None
    except (OSError, ValueError):
        return None


class RuntimeFile:
    """The file by which commands of the same user find the running daemon; gone when it is."""

    def __init__(self, config: Config, url: str, *, has_token_file: bool = True) -> None:
        """Without a port, `url` is empty."""
        self._path: Path = config.runtime_file
        own = os.getpid()
        token_file = str(config.token_file) if has_token_file else None
        facts = RuntimeFacts(url, own, start_time(own) or 0, str(config.tools_file), token_file)
        here = os.getcwd()  # noqa: PTH109 - the logical path, as the user typed it
        self._content = replace(facts, arguments=tuple(sys.argv[1:]), folder=here)

    def __enter__(self) -> None:
        try:
            # Without a sync: what is in it holds no longer than this process.
            disk.replace_file(self._path, msgspec.json.encode(self._content), sync=False)
        except OSError as error:
            # Clients are still served; only the commands do not find us.
            event(log, logging.WARNING, "runtime_file.not_written", path=str(self._path), message=str(error))

    def __exit__(self, *_: object) -> None:
        try:
            if msgspec.json.decode(disk.read_small_file(self._path), type=RuntimeFacts).pid == os.getpid():
                self._path.unlink()
        except (OSError, ValueError):
            pass
