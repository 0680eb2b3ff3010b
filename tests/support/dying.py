"""A change whose process dies at one of its system calls."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

_COUNTED = (
    *("open", "write", "fsync", "link", "rename", "replace", "unlink", "ftruncate", "close", "copy_file_range"),
    *("mkdir", "rmdir", "chmod", "fchmod", "utime", "symlink", "mkfifo", "setxattr", "lchown"),
)


def dies_at(step: int, change: Callable[[], object]) -> bool:
    """Make a change in a child that is killed at the system call of that number; False if it was done before."""
    child = os.fork()
    if not child:
        code = 1
        try:
            _die_at(step)
            change()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), (step, code)
    return code != 0


def _die_at(step: int) -> None:
    left = step

    def counted(real: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return call

    for name in _COUNTED:
        setattr(os, name, counted(getattr(os, name)))
