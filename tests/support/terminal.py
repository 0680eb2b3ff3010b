"""A program on a terminal of its own: what a person would see of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

from tests.support.daemon import COMMAND, environment
from tests.support.waiting import PATIENCE_S

_COLUMNS = 100
_CODE = re.compile(r"\x1b\[[\d;]*[mK]")


class Terminal:
    """`raw` is all that was written to it so far; `shown` the same without colours."""

    def __init__(self, home: Path, *arguments: str, **extra: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, _COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            [COMMAND, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(home, {"TERM": "xterm", **extra}),
            cwd=home,
        )
        os.close(theirs)
        self.raw = ""

    @property
    def shown(self) -> str:
        return _CODE.sub("", self.raw).replace("\r\n", "\n")

    def wait_for(self, text: str) -> str:
        while text not in self.shown:
            assert self._read(), f"it has ended: {self.shown}"
        return self.shown

    def wait(self) -> int:
        """The exit code, once all that it writes has been read."""
        while self._read():
            pass
        return self.process.wait(PATIENCE_S)

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.wait()

    def close(self) -> None:
        os.close(self._ours)

    def _read(self) -> bool:
        assert select.select([self._ours], [], [], PATIENCE_S)[0], self.shown
        # The terminal of a program that has ended cannot be read.
        with contextlib.suppress(OSError):
            data = os.read(self._ours, 65_536)
            self.raw += data.decode("utf-8", "replace")
            return bool(data)
        return False


@contextlib.contextmanager
def on_a_terminal(home: Path, *arguments: str, **extra: str) -> Iterator[Terminal]:
    terminal = Terminal(home, *arguments, **extra)
    try:
        yield terminal
    finally:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()
        terminal.close()
