"""The signals that tell a program of ours to end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable


def on_signals(stop: Callable[[], object]) -> None:
    """Call `stop` on the running loop whenever a signal asks this process to end, for as long as the loop runs.

    A terminal that closes is such a signal, unless whoever started us has it ignored, as `nohup` does.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, stop)
