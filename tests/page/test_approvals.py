"""The owner answers in a real browser: sees all of what would be done, in every view, and decides."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.approvals.asking import decide, pending
from tests.support.browser import chromium, opened
from tests.support.daemon import Daemon, running
from tests.support.fleet import running_fleet
from tests.support.nats import nats_server
from tests.support.peers import WIRES

_ASKING = {
    "profiles": [
        {
            "id": "default",
            "effects": {"write": "ask"},
            "categories": [{"id": "shell", "ask": True}],
            "ask": {"commands": [{"id": "push", "pattern": "git push", "reason": "others see it", "always": False}]},
        }
    ]
}

# Notes which notifications and tones the page asks the browser for, and takes nothing from it. A page without a head is
# never hidden by itself.
_OBSERVE = """
window.shown = [], window.tones = [], window.isAway = false;
window.Notification = class extends Notification {
  constructor(title, options) { super(title, options); window.shown.push({ title, body: options.body, it: this }); }
};
const start = OscillatorNode.prototype.start;
OscillatorNode.prototype.start = function (when) {
  window.tones.push(this.frequency.value);
  return start.call(this, when);
};
Object.defineProperty(Document.prototype, "hidden", { get: () => window.isAway });
"""


@pytest.fixture
def asking(home: Path) -> Iterator[Daemon]:
    (home / "tools.json").write_text(json.dumps(_ASKING))
    with running(home, "--approval-hold-s", "60") as daemon:
        yield daemon


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


async def _ask(daemon: Daemon, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a call gives whose client waits for the owner."""
    async with WIRES["mcp-handshake"](daemon) as peer:
        return (await peer.call(tool, **arguments)).object


def _card(page: Page, request: dict[str, Any]) -> Any:
    return page.locator(f'[data-approval="{request["id"]}"]')


@pytest.mark.asyncio(loop_scope="module")
async def test_a_call_is_shown_in_every_view_and_runs_after_a_click(asking: Daemon, browser: Browser) -> None:
    async with opened(browser, asking) as window:
        call = asyncio.create_task(_ask(asking, "shell_exec", command="echo one; echo two"))
        (request,) = await pending(asking)
        for view in ("tools", "activity", "health"):
            await window.view(view)
            await expect(_card(window.page, request)).to_contain_text("echo one; echo two")
        await expect(window.page).to_have_title("(1) Health · mcp-agent")
        await _card(window.page, request).get_by_role("button", name="Once").click()
        assert (await call)["stdout"] == "one\ntwo\n"
        await expect(_card(window.page, request)).to_have_count(0)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_diff_is_shown_and_a_denial_with_its_reason_by_the_keyboard_alone(
    asking: Daemon, browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\n")
    async with opened(browser, asking) as window:
        call = asyncio.create_task(_ask(asking, "fs_write", path=str(file), content="one\n2\n"))
        (request,) = await pending(asking)
        card = _card(window.page, request)
        await expect(card.locator(".diff-line.removed")).to_contain_text("-two")
        await expect(card.locator(".diff-line.added")).to_contain_text("+2")
        # The link of a notification: it opens the page at the question, and decides nothing.
        await window.page.evaluate("id => { location.hash = `#/ask/${id}` }", request["id"])
        await expect(card).to_be_focused()
        for _ in range(6):
            await window.page.keyboard.press("Tab")
            if await card.get_by_label("Reason for a denial").evaluate("each => each === document.activeElement"):
                break
        await window.page.keyboard.type("not this file")
        await window.page.keyboard.press("Enter")
        error = (await call)["error"]
    assert error["message"] == "the owner did not approve this call: not this file"
    assert file.read_text() == "one\ntwo\n"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_sound_and_a_notification_tell_of_a_call_where_they_are_wanted(
    asking: Daemon, browser: Browser
) -> None:
    async with opened(browser, asking) as window:
        page = window.page
        await window.context.grant_permissions(["notifications"], origin=asking.url)
        await page.add_init_script(_OBSERVE)
        await page.reload()
        await page.locator('body[data-connection="live"]').wait_for()

        async def ask(command: str) -> None:
            call = asyncio.create_task(_ask(asking, "shell_exec", command=command))
            (request,) = await pending(asking)
            await expect(_card(page, request)).to_be_visible()
            await decide(asking, request["id"], "once")
            await call
            await expect(_card(page, request)).to_have_count(0)

        await ask("echo nobody wants to be told")
        assert await page.evaluate("[tones, shown.length]") == [[], 0]
        sound = page.get_by_role("button", name="Sound for calls that wait for you")
        notification = page.get_by_role("button", name="Notification for calls that wait for you")
        await sound.click()
        await expect(sound).to_have_attribute("aria-pressed", "true")
        await notification.click()
        await expect(notification).to_have_attribute("aria-pressed", "true")
        # A click on the button plays it once.
        assert await page.evaluate("tones.splice(0)") == [660, 880]
        await ask("echo heard")
        # Who sees the page needs no notification.
        assert await page.evaluate("[tones.splice(0), shown.length]") == [[660, 880], 0]
        await page.evaluate("isAway = true; document.dispatchEvent(new Event('visibilitychange'))")
        await ask("echo told")
        assert await page.evaluate("tones.splice(0)") == [660, 880]
        (told,) = await page.evaluate("shown.map(({ title, body }) => [title, body])")
        assert told == ["owner: Run a command?", "echo told"]


@pytest.mark.asyncio(loop_scope="module")
async def test_two_tabs_show_the_same_and_the_second_answer_is_not_needed(asking: Daemon, browser: Browser) -> None:
    async with opened(browser, asking) as one, opened(browser, asking) as other:
        call = asyncio.create_task(_ask(asking, "shell_exec", command="echo once"))
        (request,) = await pending(asking)
        await expect(_card(one.page, request)).to_be_visible()
        await expect(_card(other.page, request)).to_be_visible()
        await _card(other.page, request).get_by_role("button", name="Once").click()
        assert (await call)["stdout"] == "once\n"
        await expect(_card(one.page, request)).to_have_count(0)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_gateway_shows_what_clients_of_its_box_wait_for_and_leaves_the_answer_to_the_box(
    browser: Browser, tmp_path: Path
) -> None:
    with nats_server(tmp_path) as server, running_fleet(tmp_path, server.url) as fleet:
        box, gateway = fleet.member("one", "--port", "0").running, fleet.gateway().running
        box.save(_ASKING)
        await box.logged("registry.reloaded")
        async with opened(browser, gateway) as window:
            call = asyncio.create_task(_ask(box, "shell_exec", command="echo here"))
            (request,) = await pending(box)
            card = _card(window.page, request)
            await expect(card).to_contain_text("echo here")
            await expect(card).to_contain_text("Answer it on the page of one.")
            await expect(card.get_by_role("button")).to_have_count(0)
            await decide(box, request["id"], "once")
            assert (await call)["stdout"] == "here\n"
            await expect(card).to_have_count(0)


@pytest.mark.asyncio(loop_scope="module")
async def test_always_shows_the_exception_first_and_saves_it(asking: Daemon, browser: Browser) -> None:
    async with opened(browser, asking) as window:
        call = asyncio.create_task(_ask(asking, "shell_exec", command="echo a.b"))
        (request,) = await pending(asking)
        await _card(window.page, request).get_by_role("button", name="Always…").click()
        dialog = window.page.get_by_role("dialog")
        await expect(dialog).to_contain_text(r"echo a\.b")
        assert "except" not in asking.tools_json.read_text()
        await dialog.get_by_role("button", name="Save and approve").click()
        assert (await call)["stdout"] == "a.b\n"
    assert json.loads(asking.tools_json.read_text())["profiles"][0]["ask"]["except"] == [r"echo a\.b"]
    # Exactly this command, and no other.
    assert (await _ask(asking, "shell_exec", command="echo a.b"))["stdout"] == "a.b\n"
    other = asyncio.create_task(_ask(asking, "shell_exec", command="echo a.b; echo more"))
    await pending(asking)
    other.cancel()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_rule_can_forbid_always(asking: Daemon, browser: Browser) -> None:
    async with opened(browser, asking) as window:
        call = asyncio.create_task(_ask(asking, "bash", command="git push"))
        (request,) = await pending(asking)
        card = _card(window.page, request)
        await expect(card).to_contain_text("others see it")
        await expect(card.get_by_role("button", name="Always…")).to_have_count(0)
        await card.get_by_role("button", name="Deny").click()
        await call


@pytest.mark.asyncio(loop_scope="module")
async def test_on_a_phone_all_of_a_question_can_be_reached(asking: Daemon, browser: Browser) -> None:
    async with opened(browser, asking, viewport={"width": 360, "height": 640}) as window:
        call = asyncio.create_task(_ask(asking, "shell_exec", command=f"echo {'long-word' * 30}"))
        (request,) = await pending(asking)
        card = _card(window.page, request)
        await expect(card).to_be_visible()
        width = await window.page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360
        for name in ("Once", "For an hour", "Always…", "Deny"):
            box = await card.get_by_role("button", name=name).bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 360
        await card.get_by_role("button", name="Once").click()
        assert "long-word" in (await call)["stdout"]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_switch_has_a_third_position(asking: Daemon, browser: Browser) -> None:
    async with opened(browser, asking) as window:
        await window.view("tools")
        page = window.page
        executes = page.get_by_role("button", name="Everything that executes in default: ask first")
        await expect(executes).to_have_attribute("aria-pressed", "false")
        await executes.click()
        await expect(executes).to_have_attribute("aria-pressed", "true")
        shell = page.get_by_role("button", name="Shell Tools in default: ask first")
        await expect(shell).to_have_attribute("aria-pressed", "true")
        await shell.click()
        await expect(shell).to_have_attribute("aria-pressed", "false")
        profile = json.loads(asking.tools_json.read_text())["profiles"][0]
    assert profile["effects"] == {"write": "ask", "execute": "ask"}
    assert profile["categories"] == [{"id": "shell", "enabled": True}]
