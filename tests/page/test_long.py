"""What takes long: much output, many calls, and a check of accessibility. `make test-long` runs these."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.support import ROOT, node
from tests.support.browser import opened
from tests.support.daemon import Daemon
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(not os.environ.get("MCP_AGENT_TEST_LONG"), reason="long: MCP_AGENT_TEST_LONG=1")

_MIB = 1024 * 1024
_VIEWS = ("tools", "sessions", "activity", "changes", "files", "try", "connect", "health")


async def _heap_bytes(page: Page) -> int:
    """What the tab's JavaScript has in use, after a collection."""
    session = await page.context.new_cdp_session(page)
    await session.send("HeapProfiler.collectGarbage")
    usage = await session.send("Runtime.getHeapUsage")
    await session.detach()
    # Arrays of numbers and elements of the page lie beside the heap.
    return int(usage["usedSize"] + usage["backingStorageSize"] + usage["embedderHeapUsedSize"])


@pytest.mark.timeout(600)
@pytest.mark.asyncio(loop_scope="module")
async def test_100_mb_through_one_session_leave_the_tab_small(browser: Browser, daemon: Daemon) -> None:
    async with opened(browser, daemon) as window:
        page = window.page
        await window.view("sessions")
        line = "a line of output that is about as long as lines are in the logs of builds"
        command = f"yes '{line}' | head -c 100000000; echo the-end; sleep 1000"
        async with daemon.http() as client:
            await client.post("/tools/shell_start_session", json={"command": command})
        await expect(page.locator(".screen")).to_contain_text("the-end", timeout=400_000)
        used = await _heap_bytes(page)
        assert used < 200 * _MIB, f"{used / _MIB:.0f} MiB"
        print(f"heap after 100 MB: {used / _MIB:.0f} MiB")


@pytest.mark.timeout(600)
@pytest.mark.asyncio(loop_scope="module")
async def test_10_000_calls_scroll_without_a_stutter(browser: Browser, daemon: Daemon) -> None:
    async with daemon.http() as client:
        for _ in range(10_000):
            await client.post("/tools/health", json={})
    async with opened(browser, daemon) as window:
        page = window.page
        await window.view("activity")
        await expect(page.get_by_text(re.compile(r"^(9,9\d\d|10,000) lines$"))).to_be_visible()
        frames: list[float] = await page.evaluate(
            """async () => {
              const log = document.querySelector('.log');
              const frames = [];
              let last = performance.now();
              for (let step = 0; step < 120; step += 1) {
                log.scrollTop += 700;
                await new Promise(requestAnimationFrame);
                frames.push(performance.now() - last);
                last = performance.now();
              }
              return frames;
            }"""
        )
        median, slow = sorted(frames)[60], sorted(frames)[114]
        print(f"frames while scrolling: median {median:.0f} ms, 95 % within {slow:.0f} ms")
        # Sixty a second on an idle machine; others may be at work here.
        assert median < 50
        assert slow < 200
        assert await page.locator(".log-row").count() < 100


@pytest.mark.timeout(600)
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_view_has_a_serious_barrier(browser: Browser, daemon: Daemon, scheme: str, tmp_path: Path) -> None:
    """axe runs in the page by the debugger, which the policy of the page does not bind."""
    axe = (node.installed("axe-core", "4.14.0") / "axe-core" / "axe.min.js").read_text("utf-8")
    async with daemon.http() as client:
        await client.post("/tools/fs_write", json={"path": str(tmp_path / "a.txt"), "content": "a\n"})
        await client.post("/tools/shell_start_session", json={"command": "echo hello; sleep 1000"})
    options: dict[str, Any] = {"color_scheme": scheme}
    async with opened(browser, daemon, **options) as window:
        await window.page.evaluate(axe)
        found: dict[str, list[str]] = {}
        for view in _VIEWS:
            await window.view(view)
            await eventually(lambda: window.page.locator(".card").count())
            result = await window.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            serious = [
                f"{each['id']}: {', '.join(str(node['target']) for node in each['nodes'][:5])}"
                for each in result["violations"]
                if each["impact"] in ("serious", "critical")
            ]
            if serious:
                found[view] = serious
        assert found == {}


@pytest.mark.timeout(600)
def test_a_wheel_carries_the_page_and_its_terminal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True)
    names = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    static = ROOT / "mcp_agent" / "page" / "static"
    files = {f"mcp_agent/page/static/{path.relative_to(static)}" for path in static.rglob("*") if path.is_file()}
    component = {f"mcp_agent/page/vendor/xterm/{name}" for name in ("xterm.mjs", "xterm.css", "LICENSE")}
    assert files | component <= names
