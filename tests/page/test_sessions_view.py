"""The Sessions view: a real terminal for people, beside the client that started the session or hears of it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Self

import pytest
from playwright.async_api import Browser, Locator, Page, Route, expect

from tests.support.browser import opened
from tests.support.daemon import Daemon
from tests.support.peers import WIRES
from tests.support.sockets import address
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


def _screen(page: Page, command: str) -> Locator:
    """What a session shows now."""
    return page.get_by_label(f"Session {command}").locator(".screen")


async def _start(daemon: Daemon, command: str, *, pty: bool = False) -> str:
    async with daemon.http() as client:
        answer = await client.post("/tools/shell_start_session", json={"command": command, "pty": pty})
    return str(answer.json()["session_id"])


async def test_a_person_and_a_model_share_a_terminal(browser: Browser, daemon: Daemon) -> None:
    async with WIRES["mcp-handshake"](daemon) as peer, opened(browser, daemon) as window:
        page = window.page
        await window.view("sessions")
        await expect(page.get_by_text("No session", exact=True)).to_be_visible()
        await page.get_by_role("button", name="Start a session").first.click()
        await page.get_by_label("Command").fill("sh")
        await page.get_by_role("button", name="Start", exact=True).click()
        screen = _screen(page, "sh")
        await screen.locator(".xterm-helper-textarea").focus()
        await page.keyboard.type("echo from-a-$((40 + 2))-person; stty size\n")
        await expect(screen).to_contain_text("from-a-42-person")
        async with daemon.http() as client:
            session = (await client.get("/api/sessions")).json()["sessions"][0]
        answer = await peer.call("shell_send_input", session_id=session["id"], input="", since=0, wait_ms=1)
        assert "from-a-42-person" in answer.object["output"]
        await peer.call("shell_send_input", session_id=session["id"], input="echo from-a-model\n")
        await expect(screen).to_contain_text("from-a-model")
        # The terminal has the size of its pane, and a smaller window makes it smaller.
        before = await eventually(lambda: _last_size(page), bool)
        await page.set_viewport_size({"width": 900, "height": 800})
        await eventually(lambda: _size_told(page), lambda size: size is not None and size != before)
        await screen.locator(".xterm-helper-textarea").focus()
        await page.keyboard.type("sleep 1000\n")
        await page.get_by_role("button", name="Ctrl-C").click()
        await page.keyboard.type("echo interrupted\n")
        await screen.locator(".xterm-helper-textarea").focus()
        await page.keyboard.type("echo interrupted\n")
        await expect(screen).to_contain_text("interrupted")
        await page.get_by_role("button", name="Stop").click()
        await expect(page.get_by_label("Session sh").get_by_text("ended by")).to_be_visible()


async def _last_size(page: Page) -> tuple[str, str] | None:
    found = re.findall(r"(\d+) (\d+)", await page.locator(".xterm-rows").inner_text())
    return found[-1] if found else None


async def _size_told(page: Page) -> tuple[str, str] | None:
    await page.locator(".xterm-helper-textarea").focus()
    await page.keyboard.type("stty size\n")
    return await _last_size(page)


async def test_output_with_markup_and_escapes_in_it_is_harmless(browser: Browser, daemon: Daemon) -> None:
    async with opened(browser, daemon) as window:
        page = window.page
        hostile = "<img src=x onerror=document.title=1>"
        red = r"\033[31mred\033[0m \033]0;title\007 \033[38;2;1;200;3mtrue\033[0m"
        command = f"printf '%s {red}\\n' '{hostile}'; cat"
        await _start(daemon, command)
        await window.view("sessions")
        screen = page.locator(".screen").first
        await expect(screen).to_contain_text(hostile)
        await expect(screen.locator(".xterm-fg-1")).to_have_text("red")
        assert await screen.locator("img").count() == 0
        assert await page.title() == "Sessions · mcp-agent"
        await page.get_by_label("Input for").fill("a line for cat")
        await page.keyboard.press("Enter")
        await expect(screen).to_contain_text("a line for cat")


async def test_several_sessions_side_by_side_are_searched_and_scrolled_back(browser: Browser, daemon: Daemon) -> None:
    long = "echo the-first-line; seq 200000; echo needle-in-the-hay; sleep 1000"
    first, second = await _start(daemon, long), await _start(daemon, "echo another; sleep 1000")
    async with daemon.http() as client:
        path = f"/api/sessions/{first}/search"
        await eventually(lambda: client.get(path, params={"text": "needle"}), lambda found: found.json().get("total"))
    async with opened(browser, daemon) as window:
        page = window.page
        await window.view("sessions")
        await expect(page.locator(f'.screen[data-session="{second}"]')).to_contain_text("another")
        pane = page.get_by_label(f"Session {long}")
        await expect(pane.locator(".screen")).to_contain_text("needle-in-the-hay")
        await pane.get_by_role("button", name="Search in the output").click()
        await pane.get_by_placeholder("Search all that is kept").fill("the-FIRST".lower())
        await page.keyboard.press("Enter")
        await expect(pane.locator(".found-line")).to_have_text(["1the-first-line"])
        await pane.get_by_role("button", name="Show earlier output").click()
        await eventually(lambda: pane.get_by_role("button", name="Show earlier output").is_hidden())
        await expect(pane.locator(".screen")).to_contain_text("needle-in-the-hay")


async def test_without_the_component_a_session_is_text_with_colours(browser: Browser, daemon: Daemon) -> None:
    await _start(daemon, r"printf '\033[1;32mgreen\033[0m over\rO\nplain\n'; sleep 1000", pty=True)

    async def refuse(route: Route) -> None:
        await route.abort()

    async with opened(browser, daemon) as window:
        await window.page.route("**/ui/vendor/**", refuse)
        await window.view("sessions")
        screen = window.page.locator(".text-terminal")
        await expect(screen).to_contain_text("plain")
        await expect(screen.locator(".text-line").first).to_have_text("Oreen over")
        await expect(window.page.get_by_text("The terminal component is not there yet")).to_be_visible()


class _Line:
    """A line to the daemon that can be cut: connections break, and new ones are not served."""

    def __init__(self, daemon: Daemon) -> None:
        self._target = address(daemon)
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        self._server.close()

    def cut(self) -> None:
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        self._is_cut = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        self._writers |= {writer, far_writer}
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def test_output_goes_on_without_a_gap_after_the_line_was_down(browser: Browser, daemon: Daemon) -> None:
    session = await _start(daemon, "for i in $(seq 1 1000); do echo line-$i; read go; done")
    async with daemon.http() as client, _Line(daemon) as line, opened(browser, daemon, through=line.url) as window:
        page = window.page
        await window.view("sessions")
        screen = page.locator(".screen")
        await expect(screen).to_contain_text("line-1")
        line.cut()
        await page.locator('body[data-connection="lost"]').wait_for()
        await client.post(f"/api/sessions/{session}/input", json={"input": "\n" * 8})
        line.mend()
        await expect(screen).to_contain_text("line-9")
        rows = [row.strip() for row in (await screen.locator(".xterm-rows").inner_text()).split("\n")]
        assert [row for row in rows if row.startswith("line-")] == [f"line-{number}" for number in range(1, 10)]


async def test_finished_sessions_are_a_list_of_their_own_and_can_be_cleared(browser: Browser, daemon: Daemon) -> None:
    for number in range(20):
        await _start(daemon, f"echo out-{number}; exit {number % 3}")
    await _start(daemon, "echo it-runs; sleep 1000")
    async with daemon.http() as client:
        await eventually(
            lambda: client.get("/api/sessions"),
            lambda found: sum(not each["running"] for each in found.json()["sessions"]) == 20,
        )
    async with opened(browser, daemon) as window:
        page = window.page
        await window.view("sessions")
        finished = page.get_by_label("Finished sessions", exact=True)
        await expect(page.locator(".session-chip")).to_have_count(1)
        await expect(finished.locator("tbody tr")).to_have_count(20)
        row = finished.locator("tbody tr", has_text="out-7;")
        await expect(row).to_contain_text(re.compile(r"owner\s*exit 1\s*\d+ s ago"))
        await finished.get_by_label("Filter the finished sessions").fill("exit 2")
        await expect(finished.locator("tbody tr")).to_have_count(6)
        await finished.get_by_role("button", name="Open echo out-5;").click()
        await expect(_screen(page, "echo out-5; exit 2")).to_contain_text("out-5")
        await finished.get_by_role("button", name="Clear the finished sessions").click()
        await page.get_by_role("dialog").get_by_role("button", name="Clear").click()
        await expect(finished).to_be_hidden()
        await expect(page.locator(".pane")).to_have_count(1)
        await expect(page.locator(".session-chip")).to_have_count(1)


async def test_the_keyboard_leaves_a_terminal_by_escape_and_tab(browser: Browser, daemon: Daemon) -> None:
    await _start(daemon, "cat -A", pty=True)
    async with opened(browser, daemon) as window:
        page = window.page
        await window.view("sessions")
        pane = page.get_by_label("Session cat -A")
        await expect(pane.get_by_text("Escape, then Tab, leaves the terminal")).to_be_visible()
        terminal = pane.locator(".xterm-helper-textarea")
        await terminal.focus()
        await page.keyboard.type("a\tb\n")
        await expect(pane.locator(".screen")).to_contain_text("a^Ib")
        await expect(terminal).to_be_focused()
        await page.keyboard.press("Escape")
        await page.keyboard.press("Shift+Tab")
        await expect(terminal).not_to_be_focused()
        await page.keyboard.press("Tab")
        await expect(terminal).to_be_focused()


async def test_skip_to_content_stays_in_its_view(browser: Browser, shared_daemon: Daemon) -> None:
    async with opened(browser, shared_daemon) as window:
        await window.view("sessions")
        skip = window.page.get_by_role("link", name="Skip to content")
        await skip.focus()
        await window.page.keyboard.press("Enter")
        await expect(window.page.locator("main")).to_be_focused()
        await expect(window.page.get_by_role("heading", name="Sessions")).to_be_visible()
        assert window.page.url.endswith("#/sessions")
