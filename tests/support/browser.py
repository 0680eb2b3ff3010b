"""A real Chromium on the Tools page of a real daemon."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright, expect

from tests.support.daemon import Daemon
from tests.support.waiting import PATIENCE_S

expect.set_options(timeout=PATIENCE_S * 1000)
_ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
# Runs before the page does, and notes what the policy of the page has refused.
_WATCH_POLICY = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (event) =>
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""
_STATE = """
() => JSON.stringify({
  address: location.hash,
  connection: document.body.dataset.connection,
  focus: document.activeElement?.outerHTML.slice(0, 200),
  inputs: [...document.querySelectorAll("input")].map((input) => input.value),
  messages: [...document.querySelectorAll(".toast")].map((toast) => toast.textContent),
  text: document.querySelector("main")?.innerText.slice(0, 1000),
}, null, 1)
"""


@dataclass
class OpenPage:
    """One browser window on the page, logged in, with all that went wrong in it."""

    page: Page
    context: BrowserContext
    errors: list[str] = field(default_factory=list)

    async def view(self, name: str, path: str = "") -> None:
        """Go to a view as a person does who clicks its name."""
        if path:
            await self.page.evaluate("path => { location.hash = path }", f"#/{name}/{path}")
        else:
            await self.page.locator(f'nav a[data-id="{name}"]').click()
        await self.page.locator(f".view-{name}").wait_for()

    async def violations(self) -> list[str]:
        found: list[str] = await self.page.evaluate("window.violations")
        return found


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=_ARGUMENTS)
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def opened(
    browser: Browser, daemon: Daemon, *, through: str | None = None, **options: Any
) -> AsyncIterator[OpenPage]:
    """A window of its own, logged in by the link of `mcp-agent open`. Fails if the page had an error.

    `through` is another address that leads to the daemon.
    """
    context = await browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    context.set_default_timeout(PATIENCE_S * 1000)
    try:
        page = await context.new_page()
        opened_page = OpenPage(page, context)
        await page.add_init_script(_WATCH_POLICY)
        page.on("pageerror", lambda error: opened_page.errors.append(str(error)))
        page.on("console", lambda message: _note(opened_page, message))
        await page.goto(login_link(daemon).replace(daemon.url, through or daemon.url))
        await page.locator('body[data-connection="live"]').wait_for()
        try:
            yield opened_page
        except Exception as error:
            error.add_note(await _describe(opened_page, daemon))
            raise
        assert await opened_page.violations() == []
        assert opened_page.errors == []
    finally:
        await context.close()


def login_link(daemon: Daemon) -> str:
    """The link that `mcp-agent open` prints."""
    done = daemon.cli("open", "--print")
    assert done.returncode == 0, done.stderr
    found = re.search(r"http\S+/ui/login\?ticket=\S+", done.stdout)
    assert found is not None, done.stdout
    return found[0]


async def _describe(opened_page: OpenPage, daemon: Daemon) -> str:
    """What a person would see of a page on which a test has failed, and what the daemon said last."""
    state: str = await opened_page.page.evaluate(_STATE)
    log = daemon.stderr.read_text(errors="replace")[-2_000:]
    return f"The page: {state}\nIts errors: {opened_page.errors}\nThe log of the daemon: {log}"


def _note(opened_page: OpenPage, message: ConsoleMessage) -> None:
    # A daemon that stops is an error to the console of Chromium, and none to the page.
    if message.type == "error" and "ERR_" not in message.text and "Failed to load resource" not in message.text:
        opened_page.errors.append(message.text)
