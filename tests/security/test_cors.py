"""--allow-origin: the pages that may call the daemon from a browser, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.daemon import Daemon, command, running

_PAGE = "https://chat.example:8443"
_ASK = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}


async def test_a_page_that_is_named_may_ask_call_and_read_refusals(home: Path) -> None:
    with running(home, "--allow-origin", _PAGE, "--allow-origin", "http://other.example:80/") as daemon:
        async with daemon.http(Origin=_PAGE) as page:
            asked = await page.options("/tools/fs_list", headers={**_ASK, "Authorization": ""})
            assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, _PAGE)
            assert "authorization" in asked.headers["access-control-allow-headers"]
            assert "POST" in asked.headers["access-control-allow-methods"]
            called = await page.post("/tools/fs_list", json={"path": "."})
            refused = await page.post("/tools/fs_list", json={"path": "."}, headers={"Authorization": "Bearer wrong"})
        for answer, status in ((called, 200), (refused, 401)):
            assert answer.status_code == status
            assert answer.headers.get_list("access-control-allow-origin") == [_PAGE]
            assert answer.headers["vary"] == "origin"
            assert "access-control-allow-credentials" not in answer.headers
        async with daemon.http(Origin="http://other.example") as page:
            assert (await page.get("/openapi.json")).status_code == 200
        async with daemon.http(Origin=_PAGE, Host="evil.example") as page:
            assert (await page.options("/tools/fs_list", headers=_ASK)).status_code == 421


@pytest.mark.parametrize(
    "origin", [_PAGE, "http://chat.example:8443", "https://chat.example", "https://x.chat.example:8443"]
)
async def test_any_other_page_is_refused_and_the_refusal_names_the_flag(shared_daemon: Daemon, origin: str) -> None:
    async with shared_daemon.http(Origin=origin) as page:
        answer = await page.post("/tools/fs_list", json={"path": "."})
        asked = await page.options("/tools/fs_list", headers=_ASK)
    assert answer.status_code == asked.status_code == 403
    assert answer.json()["error"] == {
        "message": "requests from other web pages are refused",
        "hint": f"if the page is meant, start it with: mcp-agent serve --allow-origin {origin}",
    }
    assert "access-control-allow-origin" not in asked.headers


async def test_a_page_without_an_origin_cannot_be_named(shared_daemon: Daemon) -> None:
    async with shared_daemon.http(Origin="null") as page:
        answer = await page.get("/openapi.json")
    assert (answer.status_code, answer.json()["error"].get("hint")) == (403, None)


@pytest.mark.parametrize(
    "value", ["*", "chat.example", "https://chat.example/path", "https://*.example", "ftp://a", "null"]
)
def test_what_is_no_origin_is_refused_at_the_start(home: Path, value: str) -> None:
    done = command(home, "serve", "--port", "0", "--allow-origin", value)
    assert done.returncode == 2
    assert f"--allow-origin: {value!r} must be the origin of a page" in done.stderr
