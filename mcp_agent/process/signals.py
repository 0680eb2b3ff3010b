"""The signals that tell a program of ours to end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

_LISTENS_AFTER_S = 0.05


def on_signals(stop: Callable[[], object]) -> None:
    """Call `stop` on the running loop whenever a signal asks this process to end, for as long as the loop runs.

    A closing terminal sends such a signal, unless our parent made us ignore it, as `nohup` does.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, stop)


def end_process() -> None:
    """End this process in order, as a service manager does; while it still starts, as soon as it has started."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        # Nobody listens yet, and the signal would kill it.
        asyncio.get_running_loop().call_later(_LISTENS_AFTER_S, end_process)
    else:
        signal.raise_signal(signal.SIGTERM)
