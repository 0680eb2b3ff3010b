"""The Tools view in a real browser, beside a client that notices."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.support.browser import opened
from tests.support.daemon import EVERY_TOOL, Daemon
from tests.support.peers import WIRES
from tests.support.waiting import eventually
from tests.upstream.mounting import document, small

pytestmark = pytest.mark.asyncio(loop_scope="module")


def _profile(daemon: Daemon, profile_id: str) -> dict[str, Any]:
    saved = json.loads(daemon.tools_json.read_text())
    found: dict[str, Any] = next(each for each in saved["profiles"] if each["id"] == profile_id)
    return found


async def test_a_switch_reaches_a_client_and_the_file(browser: Browser, daemon: Daemon) -> None:
    async with WIRES["mcp-handshake"](daemon) as peer, opened(browser, daemon) as window:
        assert list(await peer.tools()) == EVERY_TOOL
        switch = window.page.get_by_role("switch", name="fs_read in Default")
        await expect(switch).to_have_attribute("aria-checked", "true")
        await switch.click()
        await expect(switch).to_have_attribute("aria-checked", "false")
        await peer.told()
        assert "fs_read" not in await peer.tools()
        await window.page.get_by_role("switch", name="Shell Tools in Default").click()
        await eventually(peer.tools, lambda found: not [name for name in found if name.startswith("shell_")])
        await window.page.get_by_role("switch", name="Everything that executes in Default").click()
        await eventually(lambda: _profile(daemon, "default").get("effects") == {"execute": False})
        await eventually(peer.tools, lambda found: "bash" not in found)
    assert [line for line in _policy_lines(daemon) if line["by"] == "page"]


async def test_a_click_is_not_lost_to_a_change_that_arrives_while_the_button_is_down(
    browser: Browser, daemon: Daemon
) -> None:
    """Seen: the timer of an earlier press painted the switch anew during a later one, which was no click then."""
    async with opened(browser, daemon) as window, opened(browser, daemon) as other:
        page = window.page
        switch = page.get_by_role("switch", name="fs_read in Default")
        await expect(switch).to_have_attribute("aria-checked", "true")
        await page.clock.install()
        await page.clock.pause_at(datetime.now(UTC) + timedelta(seconds=60))
        await page.get_by_label("Search tools").click()
        await page.clock.run_for(600)
        await switch.hover()
        await page.mouse.down()
        daemon.cli("disable", "fs_list")
        changed = other.page.get_by_role("switch", name="fs_list in Default")
        await expect(changed).to_have_attribute("aria-checked", "false")
        await page.clock.run_for(600)
        await page.mouse.up()
        await page.clock.resume()
        await expect(switch).to_have_attribute("aria-checked", "false")
        await expect(page.get_by_role("switch", name="fs_list in Default")).to_have_attribute("aria-checked", "false")


async def test_nothing_moves_under_a_pointer_on_its_way_to_a_switch(browser: Browser, daemon: Daemon) -> None:
    """Seen: a row grew under the pointer, and the press landed beside its switch."""
    async with opened(browser, daemon, viewport={"width": 1280, "height": 3000}) as window:
        page = window.page
        names = ["artifact_read in Default", "shell_exec in Default", "fs_patch in Default"]
        switches = [page.get_by_role("switch", name=name) for name in names]
        before = [await each.bounding_box() for each in switches]
        for each in switches:
            await each.hover(force=True)
            assert [await other.bounding_box() for other in switches] == before
        text = page.locator("tr", has=switches[1]).locator(".tool-text")
        height = "each => each.offsetHeight"
        line = await text.evaluate(height)
        await text.click()
        assert await text.evaluate(height) > line, "the rest of a description is a press away"


async def test_a_change_by_hand_shows_and_a_broken_file_is_explained(browser: Browser, daemon: Daemon) -> None:
    async with opened(browser, daemon) as window:
        page = window.page
        await expect(page.get_by_role("switch", name="fs_list in Default")).to_have_attribute("aria-checked", "true")
        off = [{"id": "filesystem", "tools": [{"id": "fs_list", "enabled": False}]}]
        daemon.save({"profiles": [{"id": "default", "label": "By hand", "categories": off}]})
        await expect(page.get_by_role("switch", name="fs_list in By hand")).to_have_attribute("aria-checked", "false")
        daemon.save('{"profiles": [{"id": "default", "enabled": "no"}]}')
        banner = page.get_by_role("alert")
        await expect(banner).to_contain_text("The last good configuration stays in force")
        await expect(banner).to_contain_text("/profiles/0/enabled")
        await expect(page.get_by_role("switch", name="fs_list in By hand")).to_have_attribute("aria-checked", "false")
        daemon.save({"profiles": []})
        await expect(banner).to_have_count(0)


async def test_profiles_are_copied_renamed_used_and_deleted(browser: Browser, daemon: Daemon) -> None:
    async with WIRES["mcp-handshake"](daemon) as peer, opened(browser, daemon) as window:
        page = window.page
        await peer.tools()
        await page.get_by_role("button", name="Read only").click()
        await page.get_by_label("More for Read only").click()
        await page.get_by_role("button", name="Duplicate…").click()
        await page.get_by_label("Name of the copy").fill("Reviewers")
        await page.get_by_role("button", name="Duplicate", exact=True).click()
        await page.get_by_role("button", name="Reviewers", exact=True).click()
        switch = page.get_by_role("switch", name="fs_write in Reviewers")
        await switch.click()
        await expect(switch).to_have_attribute("aria-checked", "true")
        await page.get_by_label("More for Reviewers").click()
        await page.get_by_role("button", name="Rename…").click()
        await page.get_by_label("Name", exact=True).fill("Editors")
        await page.get_by_role("button", name="Rename", exact=True).click()
        await page.get_by_role("button", name="Make Editors active").click()
        tools = await eventually(peer.tools, lambda found: "fs_write" in found and "shell_exec" not in found)
        assert "fs_delete" not in tools
        await page.get_by_role("button", name="Use Full access dev box").click()
        await expect(page.get_by_role("button", name="Make Editors active")).to_be_visible()
        await eventually(peer.tools, lambda found: list(found) == EVERY_TOOL)
        await page.get_by_label("More for Editors").click()
        await page.get_by_role("button", name="Delete…").click()
        await page.get_by_role("button", name="Delete", exact=True).click()
        await expect(page.get_by_label("More for Editors")).to_have_count(0)
        await expect(page.get_by_text("No browser is mounted: clients will see no tool.")).to_be_visible()
        await page.get_by_role("button", name="Use Browser-only box").click()
        await expect(page.get_by_role("dialog")).to_contain_text("No browser is mounted")
        await page.get_by_role("dialog").get_by_role("button", name="Use").click()
        await eventually(peer.tools, lambda found: list(found) == [])


async def test_a_change_from_elsewhere_leaves_the_page_where_its_person_has_scrolled(
    browser: Browser, daemon: Daemon
) -> None:
    """Seen: what had the focus came back into view, and a press landed where the switch had been."""
    async with opened(browser, daemon, viewport={"width": 1280, "height": 500}) as window:
        page = window.page
        await page.get_by_role("button", name="Read only").click()
        switch = page.get_by_role("switch", name="artifact_read in Default")
        await switch.scroll_into_view_if_needed()
        before = await switch.bounding_box()
        assert daemon.cli("disable", "fs_list").returncode == 0
        await expect(page.get_by_role("switch", name="fs_list in Default")).to_have_attribute("aria-checked", "false")
        assert await switch.bounding_box() == before
        await switch.click()
        await expect(switch).to_have_attribute("aria-checked", "false")


async def test_with_the_shell_off_what_still_executes_is_shown_and_switched_off(
    browser: Browser, daemon: Daemon
) -> None:
    async with WIRES["mcp-handshake"](daemon) as peer, opened(browser, daemon) as window:
        page = window.page
        await page.get_by_role("switch", name="Shell Tools in Default").click()
        await expect(
            page.get_by_text("The shell tools are off in Default, and bash can still execute.")
        ).to_be_visible()
        await page.get_by_role("button", name="Switch bash off, too").click()
        await expect(page.get_by_text("can still execute")).to_have_count(0)
        await eventually(peer.tools, lambda found: "bash" not in found and "shell_exec" not in found)


async def test_the_read_only_profile_shows_what_is_off_and_costs_what_the_command_line_says(
    browser: Browser, shared_daemon: Daemon
) -> None:
    async with opened(browser, shared_daemon) as window:
        page = window.page
        await page.get_by_role("button", name="Read only").click()
        for effect, state in (("reads", "true"), ("writes", "false"), ("executes", "false")):
            switch = page.get_by_role("switch", name=f"Everything that {effect} in Read only")
            await expect(switch).to_have_attribute("aria-checked", state)
        for profile in ("default", "read-only"):
            listed = shared_daemon.cli("tools", "--profile", profile).stdout
            found = re.search(r"together\s+(\d+) tokens", listed)
            assert found is not None, listed
            name = "Default" if profile == "default" else "Read only"
            head = page.locator("th", has=page.get_by_label(f"More for {name}"))
            await expect(head).to_contain_text(f"{int(found[1]):,} tokens")


async def test_on_a_phone_the_open_view_is_in_sight(browser: Browser, shared_daemon: Daemon) -> None:
    async with opened(browser, shared_daemon, viewport={"width": 390, "height": 800}) as window:
        await window.page.evaluate("location.hash = '#/health'")
        link = window.page.locator('nav a[data-id="health"]')
        await expect(link).to_have_attribute("aria-current", "page")
        await expect(link).to_be_in_viewport(ratio=0.95)


async def test_search_shows_the_tools_that_fit(browser: Browser, shared_daemon: Daemon) -> None:
    async with opened(browser, shared_daemon) as window:
        await window.page.get_by_label("Search tools").fill("artifact_re")
        await expect(window.page.locator("tbody tr .tool-name")).to_have_text(["artifact_readread"])
        await window.page.get_by_label("Search tools").fill("no such tool")
        await expect(window.page.get_by_text("No tool fits")).to_be_visible()


async def test_deny_rules_are_added_tried_and_removed(browser: Browser, daemon: Daemon) -> None:
    async with opened(browser, daemon) as window:
        page = window.page
        await page.get_by_role("button", name="Add a rule for paths").click()
        await page.get_by_label("Name of the rule").fill("env")
        await page.get_by_label("Patterns, one a line").fill(".env*\n!.env.example")
        await page.get_by_label("Reason").fill("secrets")
        await page.get_by_role("button", name="Add", exact=True).click()
        await expect(page.get_by_label("Remove the rule env")).to_be_visible()
        async with daemon.http() as client:
            answer = await client.post("/tools/fs_read", json={"path": "/srv/.env"})
        assert answer.json()["error"]["code"] == "DENIED"
        await page.get_by_label("Path to try").fill("/srv/.env.example")
        await page.get_by_label("Path to try").press("Enter")
        await expect(page.get_by_text("No rule of Default is against /srv/.env.example")).to_be_visible()
        await page.get_by_label("Path to try").fill("/srv/.env")
        await page.get_by_label("Path to try").press("Enter")
        await expect(page.get_by_text("Denied by the rule env: secrets")).to_be_visible()
        await page.get_by_label("Remove the rule env").click()
        await page.get_by_role("button", name="Remove", exact=True).click()
        await expect(page.get_by_label("Remove the rule env")).to_have_count(0)
    assert _profile(daemon, "default")["deny"] == {"paths": []}


def _policy_lines(daemon: Daemon) -> list[dict[str, Any]]:
    done = daemon.cli("audit", "--event", "policy", "--json")
    return [json.loads(line) for line in done.stdout.splitlines()]


async def test_a_browser_that_is_not_logged_in_is_told_how(browser: Browser, shared_daemon: Daemon) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(shared_daemon.url)
    await expect(page.get_by_role("heading", name="Open the Tools page")).to_be_visible()
    await expect(page.locator("pre")).to_have_text("mcp-agent open")
    await page.goto(f"{shared_daemon.url}/ui/login?ticket=used")
    await expect(page.get_by_role("heading", name="That link was used, or is too old")).to_be_visible()
    token = page.get_by_label("Or paste the owner")
    client_token = shared_daemon.cli("token", "create", "a-client").stdout.split()[-1]
    for wrong, answer in (("no token of ours", "does not know"), (client_token, "the token of a client")):
        await token.fill(wrong)
        await token.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text(answer)
    await token.fill(f" {shared_daemon.headers['Authorization'].removeprefix('Bearer ')}\n")
    await token.press("Enter")
    await expect(page.get_by_role("heading", name="Tools", exact=True)).to_be_visible()
    assert page.url == f"{shared_daemon.url}/"
    await context.close()


async def test_logging_out_ends_the_login_of_this_browser(browser: Browser, shared_daemon: Daemon) -> None:
    async with opened(browser, shared_daemon) as window:
        await window.page.get_by_role("button", name="Log this browser out").click()
        await expect(window.page.get_by_role("heading", name="Open the Tools page")).to_be_visible()
        await window.page.reload()
        await expect(window.page.get_by_role("heading", name="Open the Tools page")).to_be_visible()


async def test_the_switches_work_by_the_keyboard_alone(browser: Browser, daemon: Daemon) -> None:
    async with opened(browser, daemon) as window:
        page = window.page
        switch = page.get_by_role("switch", name="fs_grep in Default")
        await switch.focus()
        await page.keyboard.press("Space")
        await expect(switch).to_have_attribute("aria-checked", "false")
        # The keyboard stays where it was, although the board was painted again.
        await expect(switch).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(switch).to_have_attribute("aria-checked", "true")


async def test_a_mounted_server_is_switched_like_our_own_tools(browser: Browser, daemon: Daemon) -> None:
    daemon.save(document({"browser": small()}))
    async with WIRES["mcp-handshake"](daemon) as peer, opened(browser, daemon) as window:
        await window.page.get_by_role("switch", name="echo in default").click()
        await eventually(peer.tools, lambda found: "look" in found and "echo" not in found)
        await window.page.get_by_role("button", name="Use Browser-only box").click()
        tools = await eventually(peer.tools, lambda found: "fs_read" not in found)
        assert "look" in tools
        await window.view("health")
        await expect(window.page.locator("section", has_text="Mounted servers")).to_contain_text("browserrunning")
