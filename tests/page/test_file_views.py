"""Files changed and Files: what a tool did is seen and put back; files and artifacts are looked at and downloaded."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect

from tests.support.browser import opened
from tests.support.daemon import Daemon, running
from tests.support.peers import WIRES
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_a_change_is_shown_undone_and_redone(browser: Browser, daemon: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("one\ntwo\nthree\n")
    async with WIRES["mcp-handshake"](daemon) as peer, opened(browser, daemon) as window:
        page = window.page
        await window.view("changes")
        await expect(page.get_by_text("No change", exact=True)).to_be_visible()
        operation = {"type": "replace_first", "pattern": "two", "replacement": "2"}
        await peer.call("fs_patch", path=str(file), operations=[operation])
        await expect(page.locator(".change")).to_have_count(1)
        await expect(page.locator(".diff-line.removed")).to_have_text("2-two")
        await expect(page.locator(".diff-line.added")).to_have_text("2+2")
        await expect(page.get_by_label("The change")).to_contain_text("changed by owner")
        await page.get_by_role("button", name="Undo", exact=True).click()
        await eventually(file.read_text, lambda text: text == "one\ntwo\nthree\n")
        await page.get_by_role("button", name="Redo").click()
        await eventually(file.read_text, lambda text: text == "one\n2\nthree\n")
        await peer.call("fs_delete", path=str(file))
        await page.locator(".change", has_text="deleted").click()
        await page.get_by_role("button", name="Undo", exact=True).click()
        await eventually(file.exists)
    lines = [
        line for line in daemon.cli("audit", "--tool", "fs_move", "--json").stdout.splitlines() if '"page"' in line
    ]
    assert len(lines) == 3


async def test_a_file_that_has_changed_since_is_undone_only_when_asked(
    browser: Browser, daemon: Daemon, tmp_path: Path
) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("before\n")
    async with WIRES["mcp-handshake"](daemon) as peer, opened(browser, daemon) as window:
        page = window.page
        await peer.call("fs_write", path=str(file), content="after\n")
        file.write_text("by hand\n")
        await window.view("changes")
        await page.get_by_role("button", name="Undo", exact=True).click()
        await expect(page.get_by_role("dialog")).to_contain_text("It has changed since")
        assert file.read_text() == "by hand\n"
        await page.get_by_role("dialog").get_by_role("button", name="Undo anyway").click()
        await eventually(file.read_text, lambda text: text == "before\n")


async def test_a_command_is_one_row_that_opens_to_its_paths(browser: Browser, home: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    for name in ("a.txt", "b.txt"):
        (root / name).write_text("one\n")
    with running(home, extra={"MCP_AGENT_COMMAND_UNDO": "true"}) as daemon:
        async with WIRES["mcp-handshake"](daemon) as peer, opened(browser, daemon) as window:
            page = window.page
            await window.view("changes")

            async def knows() -> bool:
                return "unknown" not in str(await peer.call("shell_exec", command="true", cwd=str(root)))

            await eventually(knows)
            await peer.call("shell_exec", command="sed -i s/one/two/ *.txt; echo new > c.txt", cwd=str(root))
            await expect(page.locator(".change")).to_have_count(1)
            await expect(page.locator(".change")).to_contain_text("changed 2 files, created 1 file")
            await expect(page.locator(".change-path")).to_have_count(3)
            row = page.locator(".change-path", has_text="a.txt")
            await row.locator("summary").click()
            await expect(row.locator(".diff-line.removed")).to_have_text("1-one")
            await row.get_by_role("button", name="Put it back").click()
            await eventually((root / "a.txt").read_text, lambda text: text == "one\n")
            assert (root / "b.txt").read_text() == "two\n"
            await expect(page.locator(".change-path")).to_have_count(2)
            await page.get_by_role("button", name="Undo", exact=True).click()
            await eventually((root / "b.txt").read_text, lambda text: text == "one\n")
            await eventually(lambda: not (root / "c.txt").exists())


async def test_files_are_browsed_looked_at_and_downloaded(browser: Browser, daemon: Daemon, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "readme.md").write_text("# Title\n<script>alert(1)</script>\nlast line\n")
    (folder / "dot.png").write_bytes(_PNG)
    (folder / "data.bin").write_bytes(bytes(range(256)))
    async with opened(browser, daemon) as window:
        page = window.page
        await window.view("files")
        await page.get_by_label("Path").fill(str(tmp_path))
        await page.keyboard.press("Enter")
        await page.locator(".file-row", has_text="project").click()
        await page.locator(".file-row", has_text="readme.md").click()
        await expect(page.locator(".source pre")).to_have_text("# Title\n<script>alert(1)</script>\nlast line")
        await expect(page.locator(".source .numbers")).to_have_text("1\n2\n3\n", use_inner_text=False)
        await page.locator(".file-row", has_text="dot.png").click()
        image = page.locator(".picture img")
        await expect(image).to_be_visible()
        assert await image.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
        await page.locator(".file-row", has_text="data.bin").click()
        async with page.expect_download() as pending:
            await page.get_by_role("button", name="Download").click()
        download = await pending.value
        assert download.suggested_filename == "data.bin"
        assert Path(await download.path()).read_bytes() == bytes(range(256))
        await page.get_by_label("Path").fill(str(folder / "readme.md"))
        await page.keyboard.press("Enter")
        await expect(page.locator(".source pre")).to_contain_text("last line")
        await page.go_back()
        await expect(page.get_by_label("The file").get_by_role("heading")).to_have_text("data.bin")
        await page.go_back()
        await expect(image).to_be_visible()
        for _ in range(3):
            await page.go_back()
        await expect(page.locator(".file-row", has_text="project")).to_be_visible()
        address = f"{daemon.url}/#/files{folder}/readme.md"
        assert await page.locator(".file-row", has_text="project").get_attribute("href") == f"#/files{folder}/"
        await page.goto(address)
        await expect(page.locator(".source pre")).to_contain_text("last line")
    events = daemon.cli("audit", "--event", "download", "--json").stdout
    assert "data.bin" in events


async def test_a_listing_that_comes_late_leaves_the_field_to_who_is_about_to_type(
    browser: Browser, daemon: Daemon, tmp_path: Path
) -> None:
    """The first listing put its path into the field that a person had just gone to: theirs was typed behind it."""
    may_answer = asyncio.Event()

    async def hold(route: Route) -> None:
        await may_answer.wait()
        await route.continue_()

    (tmp_path / "project").mkdir()
    async with opened(browser, daemon) as window:
        page = window.page
        await page.route("**/api/files/start", hold)
        await window.view("files")
        field = page.get_by_label("Path", exact=True)
        await field.focus()
        may_answer.set()
        await page.locator(".file-row").first.wait_for()
        await page.keyboard.insert_text(str(tmp_path))
        await page.keyboard.press("Enter")
        await page.locator(".file-row", has_text="project").click()
        await expect(field).to_have_value(f"{tmp_path}/project")
        await field.fill("")
        await field.blur()
        await expect(field).to_have_value(f"{tmp_path}/project")


async def test_a_full_folder_and_long_texts_are_shown_part_by_part(
    browser: Browser, shared_daemon: Daemon, tmp_path: Path
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(1_050):
        (folder / f"file-{number:04}").touch()
    (folder / "file-0000").write_text("".join(f"line {number}\n" for number in range(1, 4_501)))
    async with opened(browser, shared_daemon) as window:
        page = window.page
        await window.view("files")
        await page.get_by_label("Path", exact=True).fill(str(folder))
        await page.keyboard.press("Enter")
        await page.get_by_role("button", name="Show more", exact=True).click()
        await expect(page.locator(".file-row")).to_have_count(1_051)
        await page.locator('.file-row[data-path$="file-0000"]').click()
        for start in (2_001, 4_001):
            await page.get_by_role("button", name=f"Show from line {start:,} on").click()
        await expect(page.locator(".source pre").last).to_contain_text("line 4500")
        await expect(page.get_by_text("4,500 lines")).to_be_visible()


async def test_a_denied_file_is_not_given_out(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=1")
    deny = {"paths": [{"id": "env", "pattern": ".env", "reason": "secrets"}]}
    daemon.save({"profiles": [{"id": "default", "deny": deny}]})
    async with daemon.http() as client:
        path = {"path": str(tmp_path / ".env")}
        answer = await eventually(
            lambda: client.get("/api/files/content", params=path), lambda found: found.status_code == 400
        )
        assert answer.json()["error"]["code"] == "DENIED"
        own = await client.get("/api/files/content", params={"path": daemon.ready["token_file"]})
        assert own.json()["error"]["code"] == "DENIED"


async def test_artifacts_are_listed_and_looked_at(browser: Browser, daemon: Daemon) -> None:
    async with daemon.http() as client:
        await client.post("/tools/shell_exec", json={"command": "seq 400000"})
    async with opened(browser, daemon) as window:
        await window.view("files")
        await window.page.get_by_role("button", name="Artifacts", exact=True).click()
        await window.page.get_by_role("button", name="Look").first.click()
        await expect(window.page.locator("pre.code")).to_contain_text("1\n2\n3\n")
