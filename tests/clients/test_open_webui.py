"""A person in the real Open WebUI, in a real browser: `make test-openwebui`.

It is apart from `make test`, because Open WebUI is several gigabytes. What it sends to the daemon in this walk is kept
in tests/open_terminal/recorded; the tests there send the same.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import FloatRect, Page, expect

from tests.support import ROOT
from tests.support.browser import chromium
from tests.support.daemon import Daemon, running
from tests.support.open_webui import OpenWebUI, Recorded, Told, open_webui, recorder, scripted_model
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(not os.environ.get("MCP_AGENT_TEST_OPEN_WEBUI"), reason="run it with `make test-openwebui`"),
]

RECORDED = ROOT / "tests" / "open_terminal" / "recorded" / "walk.json"
# Set to a folder, the walk leaves its pictures there; docs/open-webui.md shows them.
_PICTURES = os.environ.get("MCP_AGENT_PICTURES")
# What the recorded requests run, too.
NOTEBOOK = {
    "cells": [{"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": ["6 * 7"]}],
    "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}
_CLOCK = "for i in $(seq 1 600); do echo tick $i; sleep 1; done"
_SCRIPT = {
    "Start the clock": ("shell_start_session", {"command": _CLOCK}),
    "Build it": ("run_command", {"command": "echo compiling; sleep 300; echo built"}),
    "Show me the logo": ("fs_read", {"path": "logo.png"}),
    "Show it to me": ("display_file", {"path": "logo.png"}),
    "Serve it": (
        "shell_start_session",
        {"command": "exec python3 -m http.server --bind 127.0.0.1 --directory ../site 0"},
    ),
    "What is here?": ("run_command", {"command": "ls -1; exit 3"}),
}


@dataclass
class Walk:
    page: Page
    daemon: Daemon
    webui: OpenWebUI
    told: Told
    port: int
    requests: list[Recorded]

    async def say(self, text: str) -> None:
        await self.page.locator("#chat-input").click()
        await self.page.keyboard.type(text)
        await self.page.keyboard.press("Enter")

    async def picture(self, name: str, clip: FloatRect | None = None) -> None:
        if _PICTURES:
            await self.page.screenshot(path=Path(_PICTURES) / f"{name}.png", clip=clip)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def walk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Walk]:
    home = tmp_path_factory.mktemp("home")
    project = home / "project"
    project.mkdir()
    (project / "README.md").write_text("# Weather\n\nA small project.\n")
    (project / "main.py").write_text("print('sunny')\n")
    _draw(project / "logo.png")
    (project / "sums.ipynb").write_text(json.dumps(NOTEBOOK))
    (home / "site").mkdir()
    (home / "site" / "index.html").write_text("<link rel=stylesheet href=style.css><h1>Sunny</h1>")
    (home / "site" / "style.css").write_text("h1 { color: rgb(1, 2, 3) }")
    with (
        running(home, cwd=project, extra={"SHELL": "/bin/sh", "PS1": "$ "}) as daemon,
        scripted_model(_SCRIPT) as (model, told),
    ):
        port = urlsplit(daemon.url).port or 0
        async with (
            recorder(port, {str(project): "{project}", str(home): "{home}", daemon.token: "{token}"}) as (
                front,
                requests,
            ),
            open_webui(tmp_path_factory.mktemp("webui"), model) as webui,
            chromium() as browser,
        ):
            context = await browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US")
            await context.add_init_script(f"localStorage.token = {json.dumps(webui.token)}")
            page = await context.new_page()
            page.set_default_timeout(30_000)
            yield Walk(page, daemon, webui, told, front, requests)


async def test_a_connection_is_added_by_import(walk: Walk, tmp_path: Path) -> None:
    printed = walk.daemon.cli("connect", "open-webui", "--print")
    assert printed.returncode == 0, printed.stderr
    (tmp_path / "connection.json").write_text(printed.stdout)
    page = walk.page
    await page.goto(f"{walk.webui.url}/admin/settings/integrations")
    await page.get_by_role("button", name="Add Connection").first.click()
    await page.get_by_text("Import", exact=True).wait_for()
    await page.locator("input[type=file]").last.set_input_files(tmp_path / "connection.json")
    await expect(page.get_by_text("Import successful")).to_be_visible()
    await walk.picture("import")
    await page.get_by_role("button", name="Save").last.click()
    await expect(page.get_by_text("Connections saved successfully")).to_be_visible()


async def test_the_tools_of_a_connection_are_switched_on_in_a_chat(walk: Walk) -> None:
    page = walk.page
    await page.goto(walk.webui.url)
    await page.get_by_role("button", name="Integrations").first.click()
    await page.get_by_role("menuitem", name=re.compile("^Tools")).click()
    tools = page.get_by_role("menuitemcheckbox", name="devbox")
    await expect(tools).to_have_attribute("aria-checked", "false")
    await tools.click()
    await expect(tools).to_have_attribute("aria-checked", "true")
    await walk.picture("tools", {"x": 280, "y": 306, "width": 760, "height": 200})
    # The walk goes on with the terminal, which has the same tools.
    await tools.click()
    await expect(tools).to_have_attribute("aria-checked", "false")


async def test_the_terminal_is_added_with_its_url_and_a_key(walk: Walk) -> None:
    page = walk.page
    await page.goto(f"{walk.webui.url}/admin/settings/integrations")
    await page.get_by_role("button", name="Add Connection").nth(1).click()
    await page.fill("#terminal-name", "devbox")
    await page.fill("#terminal-url", f"http://127.0.0.1:{walk.port}/open-terminal")
    await page.get_by_placeholder("API Key").fill(walk.daemon.token)
    await page.get_by_role("button", name="Verify Connection").click()
    await expect(page.get_by_text("Connected (Terminal)")).to_be_visible()
    await walk.picture("terminal")
    await page.locator("form:has(#terminal-url) button[type=submit]").click()
    await expect(page.get_by_text("Terminal servers saved").first).to_be_visible()
    # A new one is off.
    await page.get_by_role("switch").nth(1).click()
    await eventually(lambda: walk.requests, lambda seen: any(each.target.endswith("/openapi.json") for each in seen))


async def test_a_person_opens_a_file(walk: Walk) -> None:
    page = walk.page
    await page.goto(walk.webui.url)
    await page.get_by_role("button", name="Terminal").first.click()
    await page.get_by_text("devbox", exact=True).last.click()
    await page.get_by_text("README.md").click()
    await expect(page.get_by_text("A small project.")).to_be_visible()


async def test_a_cell_of_a_notebook_is_run(walk: Walk) -> None:
    page = walk.page
    await page.get_by_role("button", name="project", exact=True).click()
    await page.get_by_text("sums.ipynb").click()
    await page.get_by_title("Run cell").click()
    # The first one starts the kernel.
    await expect(page.locator(".nb-outputs")).to_have_text("42", timeout=90_000)
    await walk.picture("notebook")
    saved = json.loads((walk.daemon.home / "project" / "sums.ipynb").read_text())
    assert saved["cells"][0]["outputs"][0]["data"] == {"text/plain": ["42"]}
    await page.get_by_role("button", name="Stop", exact=True).click()
    await expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)


async def test_a_session_of_the_model_is_watched_while_it_runs(walk: Walk) -> None:
    page = walk.page
    await walk.say("Start the clock")
    await expect(page.get_by_text("It is done.")).to_be_visible()
    assert walk.told.results[-1].startswith("[session s")
    assert any("Relative paths count from" in each for each in walk.told.system)
    await page.get_by_role("button", name="Expand terminal").click()
    tab = page.get_by_role("tab").filter(has_text="for i in")
    await tab.click()
    rows = page.locator(".xterm-rows:visible")
    await expect(rows).to_contain_text("tick 3")
    await expect(rows).to_contain_text("tick 5")
    await walk.picture("session")


async def test_a_person_types_into_a_shell(walk: Walk) -> None:
    page = walk.page
    await page.get_by_role("tab", name="Shell").click()
    await page.locator(".xterm:visible").click()
    await page.keyboard.type("echo six times seven is $((6 * 7)); ls\n")
    rows = page.locator(".xterm-rows:visible")
    await expect(rows).to_contain_text("six times seven is 42")
    await expect(rows).to_contain_text("README.md")
    await walk.picture("shell")


async def test_a_command_is_shown_while_it_runs_and_the_stop_button_ends_it(walk: Walk) -> None:
    page = walk.page
    await walk.say("Build it")
    tab = page.get_by_role("tab").filter(has_text="echo compiling")
    await tab.click()
    await expect(page.locator(".xterm-rows:visible")).to_contain_text("compiling")
    await walk.picture("command")
    await page.get_by_role("button", name="Stop", exact=True).click()
    await expect(tab).to_have_attribute("title", "echo compiling; sleep 300; echo built (Exit 143)")


async def test_a_result_reaches_the_model_as_it_is_and_so_does_an_image(walk: Walk) -> None:
    await walk.say("What is here?")
    await eventually(lambda: walk.told.results[-1], lambda result: result.startswith("[exit 3"))
    assert walk.told.results[-1].endswith("]\nREADME.md\nlogo.png\nmain.py\nsums.ipynb\n")
    logo = base64.b64encode((walk.daemon.home / "project" / "logo.png").read_bytes()).decode()
    await walk.say("Show me the logo")
    await eventually(lambda: walk.told.results[-1], lambda result: "PNG image of 320 × 160 pixels" in result)
    await eventually(lambda: walk.told.images, lambda images: images[-1:] == [f"data:image/png;base64,{logo}"])


async def test_a_command_that_ended_at_once_has_a_tab_with_its_output(walk: Walk) -> None:
    tab = walk.page.get_by_role("tab").filter(has_text="ls -1; exit 3")
    await tab.click()
    await expect(walk.page.locator(".xterm-rows:visible")).to_contain_text("README.md")


async def test_a_file_is_shown_to_the_person(walk: Walk) -> None:
    await walk.say("Show it to me")
    await eventually(lambda: walk.told.results[-1], lambda result: "logo.png is shown" in result)
    await expect(walk.page.locator('img[src^="blob:"]').first).to_be_visible()
    await walk.picture("display")


async def test_a_site_of_the_chat_is_shown_in_the_panel(walk: Walk) -> None:
    page = walk.page
    await walk.say("Serve it")
    await eventually(lambda: walk.told.results[-1], lambda result: result.startswith("[session"))
    # The panel shows a file; its folder has the ports below it.
    await page.get_by_role("button", name="project", exact=True).click()
    await page.get_by_text("Ports").click()
    await page.get_by_role("button", name=re.compile(r"^:\d+ python3$")).click()
    site = page.frame_locator('iframe[title^="Port"]')
    await expect(site.get_by_role("heading", name="Sunny")).to_be_visible()
    await walk.picture("site")
    assert await site.locator("html").evaluate("() => window.origin") == "null"
    # Open WebUI asks for a cookie, which the browser sends for the page alone, so the style sheet is missing.
    assert await site.locator("h1").evaluate("element => getComputedStyle(element).color") == "rgb(0, 0, 0)"


async def test_the_recorded_requests_are_those_that_this_version_sends(walk: Walk) -> None:
    await walk.page.goto("about:blank")
    seen = {
        json.dumps(asdict(each), sort_keys=True) for each in walk.requests if each.target.startswith("/open-terminal")
    }
    if os.environ.get("MCP_AGENT_RECORD"):
        RECORDED.write_text(json.dumps([json.loads(each) for each in sorted(seen)], indent=1) + "\n")
    kept = {json.dumps(each, sort_keys=True) for each in json.loads(RECORDED.read_text())}
    assert seen <= kept


def _draw(path: Path) -> None:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (320, 160), "white")
    ImageDraw.Draw(image).ellipse((110, 30, 210, 130), fill="orange")
    image.save(path)
