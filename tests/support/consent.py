"""The owner in a browser without a window, who is asked whether a client gets access."""

from __future__ import annotations

from playwright.async_api import Page, expect

from tests.support.daemon import Daemon


async def log_in_with_token(page: Page, daemon: Daemon) -> None:
    await page.get_by_label("owner\u2019s token").fill(daemon.token)
    await page.get_by_role("button", name="Log in").click()


async def answer(page: Page, daemon: Daemon, *, profile: str | None = None, allow: bool = True) -> str:
    """Log in where that is asked for, choose, and click. Afterwards the browser is at the client.

    Returns what the page has said of the client.
    """
    button = page.get_by_role("button", name="Allow" if allow else "Deny")
    token = page.get_by_label("owner\u2019s token")
    await expect(button.or_(token)).to_be_visible()
    if await token.is_visible():
        await log_in_with_token(page, daemon)
    await expect(button).to_be_visible()
    shown = await page.locator(".consent").inner_text()
    if profile is not None:
        await page.get_by_label("It may use").select_option(profile)
    # It can be clicked a moment after it was shown, and not before.
    async with page.expect_navigation(wait_until="commit"):
        await button.click()
    return shown
