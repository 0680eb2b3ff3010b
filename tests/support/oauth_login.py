"""A program that is let in by OAuth: its browser is ours, in which its owner clicks the consent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from playwright.async_api import Page

from tests.support import consent, node
from tests.support.daemon import Daemon, environment
from tests.support.waiting import eventually

# What programs start to open a browser, besides $BROWSER.
_NAMES = ("xdg-open", "sensible-browser", "x-www-browser", "www-browser", "open")
_PRINTED = re.compile(r"navigate to: (http\S+)")
PATIENCE_S = 90.0


class LoginHome:
    """A home with a browser that writes down the address it is to show."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        bin, self._asked, self._printed = folder / "bin", folder / "asked", folder / "printed"
        bin.mkdir(parents=True)
        for name in _NAMES:
            script = f'#!/bin/sh\nfor each; do case "$each" in http*) echo "$each" >> {self._asked};; esac; done\n'
            (bin / name).write_text(script)
            (bin / name).chmod(0o755)
        path = f"{bin}{os.pathsep}{node.environment()['PATH']}"
        found = environment(folder, {"BROWSER": str(bin / "xdg-open"), "NO_COLOR": "1", "PATH": path})
        # With a screen, xdg-open would look for a browser of the machine.
        self.environment = {key: value for key, value in found.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}

    async def run(self, *command: str) -> str:
        """What a program prints, to its end."""
        async with self._started(command) as process:
            await asyncio.wait_for(process.wait(), PATIENCE_S)
        return self._result(process)

    async def log_in(self, page: Page, daemon: Daemon, *command: str, **choice: Any) -> str:
        """What a program prints that opens the browser, where the owner gives it what it asks for."""
        async with self._started(command) as process:
            await self.click(page, daemon, **choice)
            await asyncio.wait_for(process.wait(), PATIENCE_S)
        return self._result(process)

    @contextlib.asynccontextmanager
    async def clicking(self, page: Page, daemon: Daemon) -> AsyncIterator[None]:
        """Within the block, whoever opens the browser is given what he asks for, once."""
        async with asyncio.TaskGroup() as tasks:
            clicked = tasks.create_task(self.click(page, daemon))
            yield
            await clicked

    async def click(self, page: Page, daemon: Daemon, **choice: Any) -> str:
        """Answer the consent at the address that was opened. Returns what the page has said of the program."""
        try:
            await page.goto(await eventually(self._address, within_s=PATIENCE_S))
        except AssertionError as error:
            error.add_note(self._printed.read_text(errors="replace") if self._printed.exists() else "")
            raise
        self._asked.unlink(missing_ok=True)
        return await consent.answer(page, daemon, **choice)

    def _address(self) -> str:
        """What was opened, or printed for a person to open."""
        if self._asked.exists() and (opened := self._asked.read_text().strip()):
            return opened.splitlines()[-1]
        printed = self._printed.read_text(errors="replace") if self._printed.exists() else ""
        found = _PRINTED.search(printed)
        return found[1] if found is not None else ""

    @contextlib.asynccontextmanager
    async def _started(self, command: tuple[str, ...]) -> AsyncIterator[asyncio.subprocess.Process]:
        """A program in this home, which is ended with all that it has started."""
        with self._printed.open("wb") as printed:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=printed,
                stderr=asyncio.subprocess.STDOUT,
                env=self.environment,
                cwd=self.folder,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    def _result(self, process: asyncio.subprocess.Process) -> str:
        printed = self._printed.read_text(errors="replace")
        assert process.returncode == 0, printed
        return printed
