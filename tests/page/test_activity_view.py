"""The Activity view: calls as they happen, one of them opened, and plots."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.support.browser import opened
from tests.support.daemon import Daemon
from tests.support.peers import WIRES

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_calls_show_as_they_happen_and_can_be_opened(browser: Browser, daemon: Daemon, tmp_path: Path) -> None:
    async with WIRES["mcp-handshake"](daemon) as peer, opened(browser, daemon) as window:
        page = window.page
        await window.view("activity")
        await expect(page.get_by_text("Nothing here yet")).to_be_visible()
        await peer.call("fs_write", path=str(tmp_path / "a.txt"), content="a secret text")
        await peer.call("fs_read", path=str(tmp_path / "missing.txt"))
        rows = page.locator(".log-row")
        await expect(rows).to_have_count(2)
        await expect(rows.first).to_contain_text("fs_read")
        await expect(rows.first).to_contain_text("NOT_FOUND")
        await rows.last.click()
        detail = page.get_by_label("One call")
        await expect(detail).to_contain_text('"content": "<13 chars>"')
        await expect(detail).to_contain_text('"bytes_written": 13')
        await expect(detail).not_to_contain_text("a secret text")
        await expect(rows.first.locator(".log-subject")).to_have_text(str(tmp_path / "missing.txt"))
        await page.get_by_label("Filter the calls").fill("not_found")
        await expect(rows).to_have_count(1)
        await page.get_by_label("Filter the calls").fill(str(tmp_path / "a.txt"))
        await expect(rows).to_have_count(1)
        await expect(rows.first).to_contain_text("fs_write")
        await page.get_by_label("Filter the calls").fill("")
        await page.get_by_label("What to show").select_option("errors")
        await expect(rows).to_have_count(1)
        plots = page.locator(".plot")
        await expect(plots.nth(0)).to_contain_text("Calls2")
        await expect(plots.nth(1)).to_contain_text("Errors1 (50 %)")
        await page.get_by_role("button", name="Last day").click()
        await expect(plots.nth(0)).to_contain_text("Calls2")


async def test_a_command_is_shown_as_the_log_has_it_and_found_by_the_filter(browser: Browser, daemon: Daemon) -> None:
    async with daemon.http() as client, opened(browser, daemon) as window:
        await client.post("/tools/shell_exec", json={"command": "printf %s a-secret"})
        await client.post("/tools/fs_list", json={"path": "/"})
        await window.view("activity")
        rows = window.page.locator(".log-row")
        await expect(rows).to_have_count(2)
        await window.page.get_by_label("Filter the calls").fill("printf")
        await expect(rows.locator(".log-subject")).to_have_text(["printf … <18 chars>"])


async def test_a_search_is_shown_by_its_place_and_of_a_long_path_the_end_is_in_sight(
    browser: Browser, daemon: Daemon, tmp_path: Path
) -> None:
    folder = tmp_path.joinpath(*(f"a folder with a long name {number}" for number in range(4)))
    folder.mkdir(parents=True)
    async with daemon.http() as client, opened(browser, daemon) as window:
        await client.post("/tools/fs_grep", json={"base": str(folder), "pattern": "x"})
        await window.view("activity")
        subject = window.page.locator(".log-row .log-subject")
        await expect(subject).to_have_text(str(folder))
        last, box = await subject.evaluate(
            """(cell) => {
                const text = cell.querySelector("bdi").firstChild;
                const range = document.createRange();
                range.setStart(text, text.length - 1);
                range.setEnd(text, text.length);
                return [range.getBoundingClientRect().right, cell.getBoundingClientRect().right];
            }"""
        )
        assert last <= box + 1


async def test_a_policy_change_and_a_refused_login_are_events(browser: Browser, daemon: Daemon) -> None:
    async with opened(browser, daemon) as window:
        await window.view("activity")
        await window.page.get_by_label("What to show").select_option("events")
        assert daemon.cli("disable", "fs_read").returncode == 0
        async with daemon.http(Authorization="Bearer wrong-token") as client:
            assert (await client.get("/api/status")).status_code == 401
        await expect(window.page.locator(".log-row").first).to_contain_text("A login was refused")
        await expect(window.page.locator(".log-row").nth(1)).to_contain_text("tools.json changed")
