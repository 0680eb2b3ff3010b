"""Where the system refuses what the daemon needs to follow a process, it starts none and says so."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.daemon import COMMAND, running
from tests.support.shell_host import ShellHost

# A seccomp filter that refuses pidfd_open, as those of older container programs do, and then the program.
_REFUSING = """
import ctypes, os, platform, struct, sys
number = 434
code = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in code))
program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(filters))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[1], sys.argv[1:])
"""


async def test_a_daemon_that_may_not_open_pidfds_says_so_and_leaves_no_child(tmp_path: Path) -> None:
    """Seen: each command was started, killed and reported as a fault of its folder; what it had forked lived on."""
    with running(tmp_path, start=(sys.executable, "-c", _REFUSING, COMMAND)) as daemon:
        said = (await daemon.logged("sessions.impossible"))[0]["data"]["message"]
        assert "no command can be started: the system refuses pidfd_open" in said
        command = f"(sleep 60; touch {tmp_path}/forked) & echo $! > {tmp_path}/pid; wait"
        for tool in ("shell_exec", "shell_start_session"):
            answer = await daemon.rpc("tools/call", name=tool, arguments={"command": command})
            error = answer["result"]["structuredContent"]["error"]
            assert (error["code"], error["message"]) == ("IO_ERROR", said)
        assert not (tmp_path / "pid").exists()


async def test_a_command_that_arrives_while_the_daemon_stops_is_not_started(shell: ShellHost) -> None:
    """Seen: it began after the last look for processes, and nothing ended it."""
    await shell.daemon.sessions.end_all(0.5)
    for tool in ("shell_exec", "shell_start_session", "bash"):
        error = (await shell.call(tool, command="touch ran"))["error"]
        assert "the daemon is stopping" in error["message"]
    assert not (shell.folder / "ran").exists()
