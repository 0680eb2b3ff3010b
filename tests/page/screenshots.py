"""`make screenshots`: every view of the Tools page, light and dark, narrow and wide, with something to show.

With `--docs`, also the few pictures that docs/ shows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
from playwright.async_api import Browser

from mcp_agent.fleet.directory import AWAY_S
from mcp_agent.page import terminal_component
from tests.support import ROOT
from tests.support.browser import OpenPage, chromium, opened
from tests.support.daemon import Daemon, running
from tests.support.fleet import call, running_fleet
from tests.support.nats import nats_server
from tests.support.peers import WIRES
from tests.support.waiting import eventually

_VIEWS = ("tools", "sessions", "activity", "changes", "files", "try", "connect", "health")
# The path in the view, and what is there when it is painted.
_BOX_VIEWS = (
    ("boxes", "", "a.box-row"),
    ("boxes", "gpu1/sessions", ".session-chip"),
    ("boxes", "gpu1/files", ".file-row"),
    ("boxes", "gpu1/activity", ".box-log td"),
    ("boxes", "gpu1/health", ".tile"),
    ("activity", "", ".box-bar select"),
)
_WIDTHS = {"narrow": (380, 800), "wide": (1440, 900), "huge": (2560, 1440)}
_DOCS = ("tools", "sessions", "activity", "changes")
_PROFILES: list[dict[str, Any]] = [
    {"id": "default", "label": "Default", "deny": {"paths": [
        {"id": "secrets", "pattern": [".env*", "!.env.example"], "reason": "it holds keys of production"}
    ], "commands": [
        {"id": "force-push", "pattern": "git push .*--force", "reason": "history is shared with others"}
    ]}},
    {"id": "reviewers", "label": "Reviewers of the payment team in Lisbon", "effects": {"execute": False}},
]  # fmt: skip
_PAINT = (
    r"for i in 1 2 3 4 5 6; do printf '\033[32m✓\033[0m tests/test_orders.py::test_total_%d \033[2m(%d ms)\033[0m\n' "
    r"$i $((i*7)); done; printf '\033[31m✗\033[0m tests/test_orders.py::test_refund\n"
    r"\033[1;31mAssertionError\033[0m: 41 != 42\n'; sleep 1000"
)


async def _fill(daemon: Daemon, folder: Path) -> None:
    """Calls, changes, sessions and tokens, as a day of work leaves them."""
    (folder / "src").mkdir(parents=True)
    (folder / "README.md").write_text("# Orders\n\nTotals, refunds and invoices.\n")
    (folder / "src" / "orders.py").write_text(
        "def total(lines):\n    return sum(line.price for line in lines)\n\n\n"
        "def refund(order):\n    return order.total\n"
    )
    shutil.copy(ROOT / "mcp_agent" / "page" / "static" / "icon.svg", folder / "logo.svg")
    (folder / "a-file-whose-name-is-much-longer-than-anybody-would-like-it-to-be-in-a-narrow-window.txt").touch()
    async with daemon.http(**{"X-MCP-Agent-Form": "json"}) as client:

        async def call(tool: str, **arguments: Any) -> httpx2.Response:
            return await client.post(f"/tools/{tool}", json=arguments)

        for number in range(4):
            await call("fs_list", path=str(folder))
            await call("fs_grep", base=str(folder), pattern=f"total{number % 3}")
            if number == 0:
                await call("fs_read", path=str(folder / "missing.py"))
        source = str(folder / "src" / "orders.py")
        change = {"type": "replace_first", "pattern": "line.price", "replacement": "line.price * line.count"}
        await call("fs_patch", path=source, operations=[change])
        await call("fs_write", path=str(folder / "NOTES.md"), content="- refunds round down\n")
        await call("fs_delete", path=str(folder / "NOTES.md"))
        await call("shell_exec", command="seq 300000")
        await call("shell_start_session", command=_PAINT, pty=True)
        await call("shell_start_session", command="bash --norc", pty=True)
        for name, profile in (("laptop", None), ("ci-runner", "read-only")):
            await client.post("/api/tokens", json={"name": name, "profile": profile})
    async with httpx2.AsyncClient(base_url=daemon.url) as stranger:
        await stranger.get("/api/status", headers={"Authorization": "Bearer wrong-token"})


def _seed_log(home: Path) -> None:
    """An audit log with calls of the last hours, so that the plots have something to show."""
    chance = random.Random(7)
    folder = home / ".local" / "state" / "mcp-agent" / "audit"
    folder.mkdir(parents=True, mode=0o700)
    now = datetime.now(UTC)
    lines: list[str] = []
    for minute in range(600, 1, -1):
        for _ in range(chance.randrange(9) if minute % 50 > 12 else 0):
            size = chance.randrange(200, 30_000)
            line = {
                "ts": (now - timedelta(minutes=minute, seconds=chance.random() * 50)).isoformat(),
                "seq": len(lines) + 1,
                "boot": "demo",
                "req": f"demo{len(lines)}",
                "client": chance.choice(("laptop", "ci-runner")),
                "program": chance.choice(("claude-code", "codex-mcp-client")),
                "transport": "http",
                "tool": chance.choice(("fs_read", "fs_grep", "fs_list", "shell_exec")),
                "args": {},
                "outcome": "ok" if chance.random() > 0.06 else "NOT_FOUND",
                "ms": round(chance.lognormvariate(1.2, 1), 2),
                "bytes": size,
                "whole_bytes": size * chance.choice((1, 1, 1, 4)),
            }
            lines.append(json.dumps(line))
    path = folder / "audit.jsonl"
    path.touch(mode=0o600)
    path.write_text("\n".join(lines) + "\n")


async def _prepare(window: OpenPage, view: str, folder: Path) -> None:
    """Put a view into the state in which it has most to show."""
    page = window.page
    if view == "activity":
        await page.locator(".log-row").first.wait_for()
        await page.locator(".log-row").nth(2).click()
        await page.locator(".plot").last.wait_for()
    elif view == "changes":
        await page.locator(".change", has_text="orders.py").click()
        await page.locator(".diff-line").first.wait_for()
    elif view == "files":
        await page.get_by_label("Path", exact=True).fill(str(folder / "src" / "orders.py"))
        await page.keyboard.press("Enter")
        await page.locator(".source").wait_for()
    elif view == "try":
        await page.get_by_label("Tool", exact=True).select_option("fs_list")
        await page.locator('[name="path"]').fill(str(folder))
        await page.get_by_role("button", name="Call fs_list").click()
        await page.locator(".answer").wait_for()
    elif view == "sessions":
        await page.locator(".xterm-rows").last.wait_for()
        await page.locator(".xterm-rows", has_text="AssertionError").wait_for()
    elif view == "connect":
        await page.locator(".known-item").first.wait_for()
    elif view == "health":
        await page.locator(".meter").first.wait_for()
    else:
        await page.locator(".board tbody tr").nth(5).wait_for()
    await page.evaluate("scrollTo(0, 0)")
    # What fades in has faded in, and every font is there.
    await page.evaluate("document.fonts.ready")
    await page.wait_for_timeout(300)


async def _take(
    browser: Browser, daemon: Daemon, folder: Path, out: Path, names: list[str], *, is_for_docs: bool
) -> None:
    for scheme in ("light", "dark"):
        for width, (pixels, height) in _WIDTHS.items():
            if not any(f"{scheme}-{width}" in name for name in names):
                continue
            size: Any = {"width": pixels, "height": height}
            async with opened(browser, daemon, viewport=size, color_scheme=scheme) as window:
                for view in _VIEWS:
                    name = f"{view}-{scheme}-{width}"
                    if name not in names:
                        continue
                    await window.view(view)
                    await _prepare(window, view, folder)
                    path = out / f"{name}.png"
                    await window.page.screenshot(path=path, full_page=width != "huge" and not is_for_docs)
                    if is_for_docs:
                        _shrink(path)


def _shrink(path: Path) -> None:
    """Write the picture again with 256 colours: it is a third as large, and looks the same."""
    from PIL import Image

    with Image.open(path) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


async def _take_boxes(browser: Browser, folder: Path, out: Path) -> int:
    """The views that only a gateway has, with three boxes of which one is gone."""
    with nats_server(folder) as server, running_fleet(folder, server.url) as fleet:
        fleet.member("gpu1", labels=("gpu=1", "zone=eu", "owner=vision"))
        fleet.member("staging", labels=("zone=eu",))
        gone = fleet.member("laptop-of-somebody-with-a-long-name", labels=("zone=home",))
        gateway = fleet.gateway("front").daemon
        assert gateway is not None
        (folder / "gpu1" / "train.py").write_text("import torch\n\nprint(torch.cuda.device_count())\n")
        await call(gateway, "shell_start_session", command=_PAINT, pty=True, box="gpu1")
        await call(gateway, "shell_start_session", command="sleep 1000", box="gpu1")
        await call(gateway, "shell_exec", command="nvidia-smi", box="gpu1")
        await call(gateway, "fs_read", path="missing.py", box="gpu1")
        await call(gateway, "fs_list", path=".", box="gpu1")
        gone.kill()
        async with gateway.http() as client:
            await eventually(
                lambda: client.get("/api/boxes"), lambda answer: answer.json()["away"] == 1, within_s=2 * AWAY_S
            )
        count = 0
        for scheme in ("light", "dark"):
            for width, (pixels, height) in _WIDTHS.items():
                size: Any = {"width": pixels, "height": height}
                async with opened(browser, gateway, viewport=size, color_scheme=scheme) as window:
                    for view, part, ready in _BOX_VIEWS:
                        await window.view(view, part)
                        await window.page.locator(ready).first.wait_for()
                        if part.endswith("files"):
                            await window.page.locator(".file-row", has_text="train.py").click()
                            await window.page.locator(".source").wait_for()
                        await window.page.evaluate("document.fonts.ready")
                        await window.page.wait_for_timeout(500)
                        name = "-".join(filter(None, (view, *part.split("/")[1:], scheme, width)))
                        await window.page.screenshot(path=out / f"{name}.png", full_page=width != "huge")
                        count += 1
        return count


async def _run(out: Path, is_for_docs: bool, *, is_of_boxes: bool = False) -> None:
    out.mkdir(parents=True, exist_ok=True)
    terminal_component.fetch()
    if is_of_boxes:
        with tempfile.TemporaryDirectory() as temporary:
            async with chromium() as browser:
                print(f"{await _take_boxes(browser, Path(temporary), out)} pictures in {out}")
        return
    every = [f"{view}-{scheme}-{width}" for view in _VIEWS for scheme in ("light", "dark") for width in _WIDTHS]
    names = [f"{view}-light-wide" for view in _DOCS] if is_for_docs else every
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary) / "home"
        folder = home / "orders"
        folder.mkdir(parents=True)
        _seed_log(home)
        with running(home, cwd=folder) as daemon:
            daemon.save({"profiles": _PROFILES})
            await _fill(daemon, folder)
            async with WIRES["mcp-handshake"](daemon) as peer, chromium() as browser:
                await peer.call("fs_list", path=str(folder))
                await _take(browser, daemon, folder, out, names, is_for_docs=is_for_docs)
    print(f"{len(names)} pictures in {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "screenshots")
    parser.add_argument("--docs", action="store_true", help="only the pictures of the documentation")
    parser.add_argument("--boxes", action="store_true", help="only the views of a gateway")
    options = parser.parse_args()
    asyncio.run(_run(options.out, options.docs, is_of_boxes=options.boxes))
