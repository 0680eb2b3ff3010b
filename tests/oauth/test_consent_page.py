"""The screen on which the owner decides, in a real browser."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, expect

from tests.support import consent
from tests.support.browser import chromium, login_link
from tests.support.daemon import Daemon
from tests.support.oauth import CALLBACK, OAuthPeer, sent_back, with_query

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A browser of somebody who has not logged in, and a client that is called back in it."""
    context = await browser.new_context()
    await context.route(f"{CALLBACK}?**", lambda route: route.fulfill(body="the client"))
    yield context
    await context.close()


async def _address(public: Daemon, name: str = "Claude", **changed: str | None) -> str:
    async with OAuthPeer(public) as peer:
        return public.url + with_query("/authorize", peer.query(await peer.register(client_name=name), **changed))


async def test_it_says_who_asks_where_it_goes_and_takes_no_for_an_answer(
    public: Daemon, context: BrowserContext
) -> None:
    page = await context.new_page()
    await page.goto(await _address(public))
    await expect(page.get_by_role("heading", name="Log in to give a client access")).to_be_visible()
    await consent.log_in_with_token(page, public)
    host = page.locator(".consent-host")
    await expect(host).to_have_text("localhost:39999")
    sizes = await page.evaluate(
        "[...document.querySelectorAll('.consent-host, .note')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert sizes[0] > 1.3 * sizes[1]
    # Its name is only its own claim, so it is not in the heading.
    await expect(page.get_by_role("heading")).to_have_text("A program asks for access to this machine")
    await expect(page.locator(".note.warn")).to_contain_text("It calls itself \u201cClaude\u201d. Nobody vouches")
    options = await page.get_by_label("It may use").locator("option").all_inner_texts()
    assert options[0].lower().startswith("read")
    await page.get_by_role("button", name="Deny").click()
    await page.wait_for_url(f"{CALLBACK}?**")
    assert sent_back(page.url) == {"error": "access_denied", "state": "x&y", "iss": public.url}


async def test_a_click_that_was_meant_for_another_page_does_nothing(public: Daemon, context: BrowserContext) -> None:
    """Its buttons wait a moment after it is shown, and each time that it comes to the front."""
    page = await context.new_page()
    await page.goto(login_link(public))
    # Its clock stands still, so that the moment does not pass.
    await page.clock.install()
    await page.goto(await _address(public))
    button = page.get_by_role("button", name="Allow")
    await expect(button).to_be_disabled()
    await page.clock.run_for(700)
    await expect(button).to_be_enabled()
    await page.evaluate("window.dispatchEvent(new Event('focus'))")
    await expect(button).to_be_disabled()


async def test_the_link_of_a_command_logs_it_in_from_another_tab(public: Daemon, context: BrowserContext) -> None:
    page = await context.new_page()
    await page.goto(await _address(public))
    token = page.get_by_label("owner\u2019s token")
    await token.fill("half of a tok")
    async with page.expect_response("**/ui/api/oauth/request?**"):
        await page.evaluate("window.dispatchEvent(new Event('focus'))")
    await expect(token).to_have_value("half of a tok")
    other = await context.new_page()
    await other.goto(login_link(public))
    await other.close()
    await page.bring_to_front()
    await page.evaluate("window.dispatchEvent(new Event('focus'))")
    await expect(page.get_by_role("button", name="Allow")).to_be_visible()
    await consent.answer(page, public)
    assert "code" in sent_back(page.url)


async def test_a_request_that_cannot_be_answered_says_why(public: Daemon, context: BrowserContext) -> None:
    page = await context.new_page()
    await page.goto(login_link(public))
    await page.goto(await _address(public, redirect_uri="http://localhost:39999/other"))
    await expect(page.locator(".note.bad")).to_contain_text("which is none of its addresses")
    assert await page.get_by_role("button").count() == 0
    # Markup in a name is text.
    await page.goto(await _address(public, "<img src=x onerror=alert(1)>\u202e"))
    await expect(page.locator(".note.warn")).to_contain_text("\u201c<img src=x onerror=alert(1)>\u201d")
