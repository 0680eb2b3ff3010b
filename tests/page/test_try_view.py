"""The Try view: a tool as a form, with its time, a way to end it, and what is wrong said at the field."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.support.browser import opened
from tests.support.daemon import Daemon

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_what_is_missing_is_said_at_its_field(browser: Browser, shared_daemon: Daemon) -> None:
    async with opened(browser, shared_daemon) as window:
        page = window.page
        await window.view("try", "fs_read")
        await page.get_by_role("button", name="Call fs_read").click()
        path = page.get_by_label("path")
        await expect(path).to_be_focused()
        await expect(path).to_have_attribute("aria-invalid", "true")
        await expect(path).to_have_accessible_description("path is needed")
        await path.fill("/no/such/file")
        await page.get_by_role("button", name="Call fs_read").click()
        await expect(page.get_by_label("The answer", exact=True)).to_contain_text("NOT_FOUND")
        await expect(path).to_have_attribute("aria-invalid", "false")


async def test_the_operations_of_a_patch_are_a_form(browser: Browser, shared_daemon: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("one\ntwo\n")
    async with opened(browser, shared_daemon) as window:
        page = window.page
        await window.view("try", "fs_patch")
        await page.get_by_label("path").fill(str(file))
        first = page.get_by_label("operations, number 1")
        await page.get_by_role("button", name="Call fs_patch").click()
        await expect(first.get_by_text("type is needed")).to_be_visible()
        await first.locator('[name="type"]').select_option("replace_first")
        await first.locator('[name="pattern"]').fill("one")
        await first.locator('[name="replacement"]').fill("1")
        await page.get_by_role("button", name="Add one").click()
        second = page.get_by_label("operations, number 2")
        await second.locator('[name="type"]').select_option("insert_after")
        await second.locator('[name="match"]').fill("two")
        await second.locator('[name="insert"]').fill("three")
        await page.get_by_role("button", name="Add one").click()
        await page.get_by_label("Remove number 3").click()
        await page.get_by_role("button", name="Call fs_patch").click()
        await expect(page.get_by_label("The answer", exact=True)).to_contain_text("ok")
    assert file.read_text() == "1\ntwo\nthree\n"


async def test_a_call_shows_its_time_is_cancelled_and_its_answer_comes_into_view(
    browser: Browser, daemon: Daemon
) -> None:
    phone = {"width": 390, "height": 700}
    async with opened(browser, daemon, viewport=phone) as window:
        page = window.page
        await window.view("try", "shell_exec")
        await page.get_by_label("command").fill("sleep 1000")
        await page.get_by_role("button", name="Call shell_exec").click()
        answer = page.get_by_label("The answer", exact=True)
        await expect(answer).to_contain_text("Running… 1.")
        await expect(answer).to_be_in_viewport()
        await answer.get_by_role("button", name="Cancel").click()
        await expect(answer).to_contain_text("CANCELLED")
        await expect(answer).to_be_in_viewport()
        await page.get_by_label("command").fill("echo done-$((40 + 2))")
        await page.get_by_role("button", name="Call shell_exec").click()
        await expect(answer).to_contain_text("done-42")
    assert daemon.cli("audit", "--outcome", "CANCELLED", "--json").stdout.count("shell_exec") == 1
