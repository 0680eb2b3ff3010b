"""Try, Connect and Health."""

from __future__ import annotations

import getpass
import re
import socket
from pathlib import Path

import pytest
import zxingcpp
from PIL import Image
from playwright.async_api import Browser, expect

from tests.support.browser import opened
from tests.support.daemon import Daemon, running
from tests.support.peers import WIRES
from tests.support.sockets import address
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_tool_is_called_as_another_profile_would(browser: Browser, daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    async with opened(browser, daemon) as window:
        page = window.page
        await window.view("try")
        await page.get_by_label("Tool", exact=True).select_option("fs_read")
        await page.locator('[name="path"]').fill(str(tmp_path / "a.txt"))
        await expect(page.locator(".try-code")).to_contain_text('-d \'{"path":')
        await page.get_by_role("button", name="Call fs_read").click()
        answer = page.get_by_label("The answer", exact=True)
        await expect(answer).to_contain_text("hello")
        await expect(answer).to_contain_text(re.compile(r"\d+ tokens"))
        await page.get_by_role("button", name="JSON, for programs").click()
        await expect(answer).to_contain_text('"content": "hello\\n"')
        await page.get_by_role("button", name="Python", exact=True).click()
        await expect(page.locator(".try-code")).to_contain_text('call_tool("fs_read"')
        await page.get_by_label("Call as").select_option("profile:read-only")
        await expect(page.get_by_label("Tool", exact=True).locator("option", has_text="fs_write")).to_have_count(0)
        await page.locator('[name="path"]').fill("")
        await page.get_by_role("button", name="Call fs_read").click()
        await expect(page.get_by_text("path is needed")).to_be_visible()


async def test_clients_are_listed_and_tokens_made_and_revoked(browser: Browser, daemon: Daemon) -> None:
    async with WIRES["mcp-handshake"](daemon) as peer, opened(browser, daemon) as window:
        page = window.page
        await peer.call("fs_list", path="/")
        await window.view("connect")
        connected = page.locator("section", has_text="Connected now")
        await expect(connected).to_contain_text("fs_list")
        await expect(connected).to_contain_text("owner")
        await page.get_by_role("button", name="Codex", exact=True).click()
        await expect(page.locator(".known")).to_contain_text("mcp-agent connect codex")
        # Exactly what the command prints.
        printed = daemon.cli("connect", "codex", "--print").stdout
        await expect(page.locator(".known pre").last).to_have_text(printed.strip())
        await page.get_by_role("button", name="Create a token").click()
        await page.locator('dialog [name="name"]').fill("laptop")
        await page.get_by_role("combobox", name="Profile").select_option("read-only")
        await page.get_by_role("button", name="Create", exact=True).click()
        token = await page.locator("dialog pre").inner_text()
        await page.get_by_role("button", name="Done").click()
        async with daemon.http(Authorization=f"Bearer {token}") as client:
            names = (await client.get("/openapi.json")).json()["paths"]
            assert "/tools/fs_read" in names
            assert "/tools/fs_write" not in names
            await page.get_by_role("button", name="Revoke laptop").click()
            await page.get_by_role("button", name="Revoke", exact=True).click()
            await eventually(lambda: client.get("/openapi.json"), lambda answer: answer.status_code == 401)
    events = daemon.cli("audit", "--event", "token_*", "--json").stdout
    assert token not in events
    assert "token_revoked" in events


async def test_a_token_is_made_with_an_expiry_and_shows_it(browser: Browser, daemon: Daemon) -> None:
    async with opened(browser, daemon) as window:
        page = window.page
        await window.view("connect")
        await page.get_by_role("button", name="Create a token").click()
        await page.locator('[name="name"]').fill("visitor")
        await page.get_by_label("Expires").select_option("in a week")
        await page.get_by_role("button", name="Create", exact=True).click()
        await page.get_by_role("button", name="Done").click()
        await expect(page.locator("tr", has_text="visitor")).to_contain_text(re.compile(r"in 6 d 23 h"))
    assert "visitor" in daemon.cli("token", "list").stdout


async def test_a_client_on_another_machine_is_connected_through_ssh_or_by_url(
    browser: Browser, shared_daemon: Daemon
) -> None:
    async with opened(browser, shared_daemon) as window:
        page = window.page
        await window.view("connect")
        await page.get_by_role("button", name="On another machine").click()
        host = f"{getpass.getuser()}@{socket.gethostname()}"
        card = page.locator("section", has_text="Connect a client")
        await expect(card).to_contain_text(f"mcp-agent connect claude-code --ssh {host}")
        await expect(card).to_contain_text('"command": "ssh"')
        port = address(shared_daemon)[1]
        await expect(card).to_contain_text(f"ssh -N -L {port}:127.0.0.1:{port} {host}")
        await expect(card).to_contain_text(f"{shared_daemon.url}/mcp")


async def test_the_camera_of_a_phone_reads_a_link_that_logs_it_in_once(
    browser: Browser, shared_daemon: Daemon, tmp_path: Path
) -> None:
    async with opened(browser, shared_daemon, color_scheme="dark") as window:
        await window.view("connect")
        await expect(window.page.get_by_text("A phone cannot reach 127.0.0.1")).to_be_visible()
        await window.page.get_by_role("button", name="Show the code").click()
        await window.page.get_by_label("A code with a login link").screenshot(path=tmp_path / "code.png")
    with Image.open(tmp_path / "code.png") as picture:
        (code,) = zxingcpp.read_barcodes(picture)
    for heading in ("Tools", "That link was used, or is too old"):
        phone = await browser.new_context(viewport={"width": 390, "height": 800})
        page = await phone.new_page()
        await page.goto(code.text)
        await expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
        await phone.close()


async def test_health_tells_of_limits_and_refused_requests(browser: Browser, daemon: Daemon) -> None:
    async with daemon.http(Authorization="Bearer wrong-token") as client:
        assert (await client.get("/api/status")).status_code == 401
    async with opened(browser, daemon) as window:
        page = window.page
        await window.view("health")
        await expect(page.locator(".view")).to_contain_text("because of a wrong token1")
        await expect(page.get_by_role("meter", name="Running shell sessions")).to_have_attribute("aria-valuemax", "10")
        daemon.save({"profiles": [{"id": "default", "colour": "red"}], "activeProfile": "nobody"})
        await expect(page.locator(".view")).to_contain_text("Degraded")
        await expect(page.get_by_role("alert")).to_contain_text("/activeProfile")


async def test_a_restart_under_two_open_pages_leaves_no_gap(browser: Browser, home: Path) -> None:
    with running(home) as daemon:
        async with opened(browser, daemon) as one, opened(browser, daemon) as two:
            await one.view("activity")
            async with daemon.http() as client:
                await client.post("/tools/fs_list", json={"path": "/"})
            await expect(one.page.locator(".log-row")).to_have_count(1)
            await two.page.get_by_role("switch", name="fs_read in Default").click()
            await one.view("tools")
            switch = one.page.get_by_role("switch", name="fs_read in Default")
            await expect(switch).to_have_attribute("aria-checked", "false")
            await one.view("activity")
            daemon.process.terminate()
            daemon.process.wait()
            await one.page.locator('body[data-connection="lost"]').wait_for()
            # While the pages are away: a change of the file, and calls.
            with running(home, "--port", str(address(daemon)[1])) as again:
                again.save({"profiles": [{"id": "default", "label": "Changed meanwhile"}]})
                async with again.http() as client:
                    for _ in range(3):
                        await client.post("/tools/fs_list", json={"path": "/"})
                for window in (one, two):
                    await window.page.locator('body[data-connection="live"]').wait_for()
                await expect(one.page.locator(".log-row")).to_have_count(4)
                await expect(two.page.get_by_role("switch", name="fs_read in Changed meanwhile")).to_be_visible()


async def test_on_a_phone_the_choice_of_the_machine_stays_in_its_card(browser: Browser, shared_daemon: Daemon) -> None:
    async with opened(browser, shared_daemon, viewport={"width": 360, "height": 700}) as window:
        await window.view("connect")
        choice = window.page.get_by_role("group", name="Where the client is")
        card = window.page.locator(".card", has=choice)
        inner, outer = await choice.bounding_box(), await card.bounding_box()
        assert inner is not None
        assert outer is not None
        assert inner["x"] + inner["width"] <= outer["x"] + outer["width"]
