"""A site that the model of a chat serves on a port: listed, shown, and kept from everything that is ours."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.support import ROOT
from tests.support.browser import chromium, opened
from tests.support.daemon import Daemon, running
from tests.support.open_terminal import get, run_tool, terminal
from tests.support.waiting import eventually, within


@asynccontextmanager
async def _site(page: httpx2.AsyncClient, daemon: Daemon, how: str = "session", kind: str = "") -> AsyncIterator[int]:
    """The port of a site that the model of a chat has started: in a session, or behind a command that has ended."""
    told = daemon.home / f"port-{uuid.uuid4().hex}"
    command = f"cd {ROOT} && exec {sys.executable} -m tests.support.site {told} {kind}"
    if how == "session":
        started = await run_tool(page, "shell_start_session", command=command)
        session = started.text.split()[1]
    else:
        await run_tool(page, "shell_exec", command=f"({command}) > {told}.log 2>&1 & echo $! > {told}.pid")
    try:
        await eventually(told.exists)
        yield int(told.read_text())
    finally:
        if how == "session":
            await run_tool(page, "shell_stop_session", session_id=session)
        else:
            await run_tool(page, "shell_exec", command=f"kill $(cat {told}.pid)")


async def _ports(page: httpx2.AsyncClient) -> list[dict[str, Any]]:
    ports: list[dict[str, Any]] = (await get(page, "/ports"))["ports"]
    return ports


async def _listed(page: httpx2.AsyncClient, port: int) -> dict[str, Any]:
    found = await eventually(lambda: _ports(page), lambda ports: any(each["port"] == port for each in ports))
    return next(each for each in found if each["port"] == port)


@pytest.mark.parametrize("how", ["session", "background"])
async def test_a_port_is_listed_to_the_chat_whose_program_listens(shared_daemon: Daemon, how: str) -> None:
    async with (
        terminal(shared_daemon, chat=f"site-{how}") as page,
        terminal(shared_daemon, chat="other") as other_chat,
        terminal(shared_daemon, user="u-2", chat=f"site-{how}") as other_user,
        _site(page, shared_daemon, how) as port,
    ):
        listed = await _listed(page, port)
        assert Path(f"/proc/{listed['pid']}/comm").read_text().strip() == listed["process"]
        for other in (other_chat, other_user):
            assert port not in [each["port"] for each in await _ports(other)]
    async with terminal(shared_daemon, chat=f"site-{how}") as page:
        await eventually(lambda: _ports(page), lambda ports: port not in [each["port"] for each in ports])


async def test_a_site_is_shown_to_the_user_whose_chat_started_it_and_to_nobody_else(shared_daemon: Daemon) -> None:
    token = shared_daemon.cli("token", "create", f"other-{uuid.uuid4().hex[:6]}").stdout.split()[-1]
    async with (
        terminal(shared_daemon, chat="shown") as page,
        terminal(shared_daemon, chat="") as frame,
        terminal(shared_daemon, user="u-2", chat="") as other_user,
        terminal(shared_daemon, chat="", token=token) as other_token,
        httpx2.AsyncClient(base_url=f"{shared_daemon.url}/open-terminal") as nobody,
        _site(page, shared_daemon) as port,
    ):
        await _listed(page, port)
        # A frame of Open WebUI names the user and no chat.
        shown = await frame.get(f"/proxy/{port}/a%20b//c/?q=1&q=2")
        assert shown.status_code == 200, shown.text
        assert shown.json()["path"] == "/a%20b//c/?q=1&q=2"
        for other in (other_user, other_token):
            assert (await other.get(f"/proxy/{port}/")).status_code == 404
        assert (await nobody.get(f"/proxy/{port}/")).status_code == 401


async def test_a_port_that_was_not_started_in_a_chat_is_not_shown(shared_daemon: Daemon) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    own = int(shared_daemon.url.rpartition(":")[2])
    async with server, terminal(shared_daemon, chat="") as page:
        for port in (server.sockets[0].getsockname()[1], own, 0, 99_999, "x", "8000x"):
            assert (await page.get(f"/proxy/{port}/")).status_code == 404


async def test_nothing_that_proves_who_asks_reaches_a_site_and_nothing_of_the_origin_comes_back(
    shared_daemon: Daemon,
) -> None:
    secret = {"Cookie": "mcp-agent-page=1", "Referer": "http://open-webui/c/1", "X-Plain": "kept"}
    async with terminal(shared_daemon, chat="headers") as page, _site(page, shared_daemon) as port:
        await _listed(page, port)
        async with terminal(shared_daemon, chat="") as frame:
            answer = await frame.get(f"/proxy/{port}/told", headers=secret)
            moved = await frame.get(f"/proxy/{port}/moved/away")
    sent = {name.lower(): value for name, value in answer.json()["headers"]}
    assert sent.keys().isdisjoint({"cookie", "authorization", "x-user-id", "x-session-id", "referer"})
    assert (sent["host"], sent["x-plain"]) == (f"localhost:{port}", "kept")
    came = answer.headers
    assert came.keys().isdisjoint({"set-cookie", "clear-site-data", "x-frame-options", "www-authenticate"})
    assert came["content-security-policy"].startswith("img-src 'none', sandbox allow-scripts ")
    assert "allow-same-origin" not in came["content-security-policy"]
    assert (moved.status_code, moved.headers["location"]) == (302, "../landed?x=1")


async def test_a_form_and_a_file_reach_a_site_as_they_were_sent(shared_daemon: Daemon) -> None:
    async with terminal(shared_daemon, chat="forms") as page, _site(page, shared_daemon, kind="echo") as port:
        await _listed(page, port)
        form = await page.post(f"/proxy/{port}/form", data={"a": "b c"})
        file = await page.put(f"/proxy/{port}/file", content=bytes(range(256)) * 1_000, headers={"Content-Type": "x/y"})
    assert (form.status_code, form.text, form.headers["x-method"]) == (201, "a=b+c", "POST")
    assert form.headers["content-type"] == "application/x-www-form-urlencoded"
    assert (file.content, file.headers["x-method"]) == (bytes(range(256)) * 1_000, "PUT")


async def test_a_websocket_reaches_a_site_with_the_token_in_its_head(shared_daemon: Daemon) -> None:
    address = f"{shared_daemon.url.replace('http', 'ws', 1)}/open-terminal/proxy"
    key = {"Authorization": f"Bearer {shared_daemon.token}", "X-User-Id": "u-1"}
    async with terminal(shared_daemon, chat="socket") as page, _site(page, shared_daemon) as port:
        await _listed(page, port)
        async with within(10.0), connect(f"{address}/{port}/socket", additional_headers=key, proxy=None) as socket:
            await socket.send("one")
            told = json.loads(await socket.recv())
            await socket.send(b"\x00\xff")
            assert await socket.recv() == b"\x00\xff"
        with pytest.raises(InvalidStatus):
            async with connect(f"{address}/{port}/socket", proxy=None):
                pass
    assert told["echo"] == "one"
    assert {"authorization", "x-user-id", "cookie"}.isdisjoint(told["headers"])


async def test_the_switch_of_a_profile_hides_ports_and_sites_at_once(home: Path) -> None:
    with running(home) as daemon:
        async with terminal(daemon, chat="switch") as page, _site(page, daemon) as port:
            await _listed(page, port)
            address = f"{daemon.url.replace('http', 'ws', 1)}/open-terminal/proxy/{port}/socket"
            key = {"Authorization": f"Bearer {daemon.token}", "X-User-Id": "u-1"}
            async with connect(address, additional_headers=key, proxy=None) as socket:
                daemon.save({"profiles": [{"id": "default", "sites": False}]})
                await eventually(lambda: _ports(page), lambda ports: not ports)
                assert (await page.get(f"/proxy/{port}/")).status_code == 404
                async with within(10.0):
                    await socket.wait_closed()
            daemon.save({"profiles": [{"id": "default"}]})
            await _listed(page, port)


async def test_a_token_that_only_reads_sees_no_ports(shared_daemon: Daemon) -> None:
    name = f"reader-{uuid.uuid4().hex[:6]}"
    token = shared_daemon.cli("token", "create", name, "--profile", "read-only").stdout.split()[-1]
    async with terminal(shared_daemon, token=token, chat="reads") as page:
        assert await _ports(page) == []


async def test_the_tools_page_links_a_session_that_listens_to_a_site_that_can_do_nothing_there(home: Path) -> None:
    with running(home) as daemon:
        async with terminal(daemon, chat="page") as model, _site(model, daemon) as port, chromium() as browser:
            async with opened(browser, daemon) as window:
                await window.view("sessions")
                link = window.page.get_by_role("link", name=f":{port}")
                await link.wait_for()
                path = await link.get_attribute("href")
                site = await window.context.new_page()
                await site.goto(f"{daemon.url}{path}hostile")
                await site.wait_for_function("window.tried")
                tried = await site.evaluate("window.tried")
            assert json.loads(tried.pop("socket"))["echo"] == "hello"
            assert tried.pop("own") == "read 200"
            assert tried.pop("style") == "rgb(1, 2, 3)"
            assert tried.pop("opener") == "null"
            assert tried.pop("frame") in ("null", "refused: SecurityError")
            assert {name: told for name, told in tried.items() if not told.startswith("refused: ")} == {}, tried
            # Whoever has the link has the site and nothing else.
            async with httpx2.AsyncClient(base_url=daemon.url) as nobody:
                assert (await nobody.get(f"{path}hostile")).status_code == 200
                assert (await nobody.get("/preview/wrong/hostile")).status_code == 404
        async with httpx2.AsyncClient(base_url=daemon.url) as nobody:
            await eventually(lambda: nobody.get(f"{path}hostile"), lambda answer: answer.status_code == 404)


async def test_a_preview_ends_with_a_revocation(home: Path) -> None:
    with running(home) as daemon:
        async with terminal(daemon, chat="revoked") as page, _site(page, daemon) as port:
            await _listed(page, port)
            async with daemon.http() as owner:
                (session,) = (await owner.get("/api/sessions")).json()["sessions"]
                (found,) = (await owner.get(f"/api/sessions/{session['id']}/ports")).json()["ports"]
            async with httpx2.AsyncClient(base_url=daemon.url) as browser:
                assert (await browser.get(found["path"])).status_code == 200
                assert daemon.cli("token", "create", "extra").returncode == 0
                assert daemon.cli("token", "revoke", "extra").returncode == 0
                assert (await browser.get(found["path"])).status_code == 404
