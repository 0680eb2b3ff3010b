"""The Boxes view of a gateway: two real members on a real nats-server, in a real browser."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.async_api import Browser, expect

from mcp_agent.fleet.directory import AWAY_S
from tests.support.browser import opened
from tests.support.daemon import Daemon
from tests.support.fleet import Fleet, call, running_fleet
from tests.support.nats import nats_server

LONG = bool(os.environ.get("MCP_AGENT_TEST_LONG"))
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("boxes")
    with nats_server(folder) as server, running_fleet(folder, server.url) as fleet:
        fleet.member("one", labels=("gpu=1", "zone=eu"))
        fleet.member("two", labels=("zone=us",))
        yield fleet


@pytest.fixture(scope="module")
def gateway(fleet: Fleet) -> Daemon:
    return fleet.gateway().running


async def test_all_boxes_are_listed_with_labels_load_and_what_runs(browser: Browser, gateway: Daemon) -> None:
    started = await call(gateway, "shell_start_session", command="sleep 1000", box="one")
    async with opened(browser, gateway) as window:
        await window.view("boxes")
        rows = window.page.locator("a.box-row")
        await expect(rows).to_have_count(2)
        first = window.page.locator('[data-box="one"]')
        await expect(first).to_contain_text("gpu=1")
        await expect(first).to_contain_text("/one")
        await expect(first.locator(".dot.good")).to_have_count(1)
        await expect(first.locator(".box-sessions")).to_contain_text("1")
        await window.page.get_by_label("Filter the boxes").fill("zone=us")
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text("two")
    await call(gateway, "shell_stop_session", session_id=started["session_id"])


async def test_sessions_of_a_box_are_started_typed_into_and_stopped(browser: Browser, gateway: Daemon) -> None:
    async with opened(browser, gateway) as window:
        page = window.page
        await window.view("boxes")
        await page.locator('[data-box="two"]').click()
        await page.get_by_role("button", name="Start a session").click()
        await page.get_by_label("Command").fill("while read line; do echo two has $line; done")
        await page.get_by_role("button", name="Start", exact=True).click()
        await page.get_by_label("Input for while").fill("tea")
        await page.keyboard.press("Enter")
        await expect(page.locator(".screen")).to_contain_text("two has tea")
        await page.get_by_role("button", name="Stop", exact=True).click()
        await expect(page.locator(".session-chip")).not_to_contain_text("running")


async def test_the_files_of_a_box_are_shown(browser: Browser, fleet: Fleet, gateway: Daemon) -> None:
    (fleet.folder / "one" / "notes.txt").write_text("on the first box\n")
    async with opened(browser, gateway) as window:
        page = window.page
        await window.view("files")
        await page.get_by_label("Box", exact=True).select_option("one")
        await page.locator(".file-row", has_text="notes.txt").click()
        await expect(page.locator(".source")).to_contain_text("on the first box")
        await expect(page.get_by_role("button", name="Download")).to_have_count(0)


async def test_the_calls_on_a_box_are_shown_as_they_happen(browser: Browser, gateway: Daemon) -> None:
    async with opened(browser, gateway) as window:
        page = window.page
        await window.view("boxes", "two/activity")
        await call(gateway, "shell_exec", command="exit 3", box="two")
        await call(gateway, "fs_list", path="/", box="one")
        await expect(page.locator(".box-log tr", has_text="shell_exec").first).to_be_visible()
        await expect(page.locator(".box-log tr", has_text="fs_list")).to_have_count(0)
        await window.view("activity")
        await expect(page.locator(".log-row").first).to_contain_text("on one")


async def test_health_says_what_is_only_to_be_seen_at_the_box(browser: Browser, gateway: Daemon) -> None:
    async with opened(browser, gateway) as window:
        page = window.page
        await window.view("health")
        await page.get_by_label("Box", exact=True).select_option("one")
        await expect(page.locator(".tile").first).to_contain_text("There")
        await expect(page.locator(".chip", has_text="shell_exec")).to_be_visible()
        await expect(page.get_by_text("Only at the box itself")).to_be_visible()
        await page.get_by_role("button", name="Sessions", exact=True).click()
        await expect(page.get_by_role("heading", name="one")).to_be_visible()


@pytest.mark.skipif(not LONG, reason="long: MCP_AGENT_TEST_LONG=1")
async def test_a_box_that_is_silent_is_marked(browser: Browser, fleet: Fleet, gateway: Daemon) -> None:
    gone = fleet.member("gone")
    async with opened(browser, gateway) as window:
        await window.view("boxes")
        row = window.page.locator('[data-box="gone"]')
        await expect(row.locator(".dot.good")).to_have_count(1)
        gone.kill()
        await expect(row.locator(".dot.bad")).to_have_count(1, timeout=3_000 * AWAY_S)
        await expect(row).to_contain_text("away")


async def test_a_daemon_without_a_fleet_has_no_boxes(browser: Browser, daemon: Daemon) -> None:
    async with opened(browser, daemon) as window:
        await window.view("health")
        await expect(window.page.locator('nav a[data-id="boxes"]')).to_have_count(0)
        await expect(window.page.locator('nav a[data-id="changes"]')).to_have_count(1)
        async with daemon.http() as client:
            assert (await client.get("/api/boxes")).status_code == 404
