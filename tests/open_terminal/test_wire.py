"""What Open WebUI is told of the tools, under the names after which it refreshes what a person sees."""

from __future__ import annotations

import platform
import uuid

import httpx2

from mcp_agent.transports.openapi import operation_ids_for
from tests.support.daemon import Daemon
from tests.support.open_terminal import get, run_tool, terminal

_KNOWN = {"fs_write": "write_file", "fs_patch": "replace_file_content", "shell_exec": "run_command"}


async def test_three_tools_have_the_operation_ids_after_which_the_page_refreshes(shared_daemon: Daemon) -> None:
    async with terminal(shared_daemon) as page:
        paths = (await get(page, "/openapi.json"))["paths"]
        prompt = (await get(page, "/system"))["prompt"]
    tools = {path.removeprefix("/tools/"): item for path, item in paths.items() if path.startswith("/tools/")}
    ids = {name: item["post"]["operationId"] for name, item in tools.items()}
    assert {name: other for name, other in ids.items() if name != other} == _KNOWN
    assert "fs_write is called write_file" in prompt


async def test_a_change_says_its_absolute_path_and_the_text_for_the_model(shared_daemon: Daemon) -> None:
    edit = {"type": "replace_first", "pattern": "one", "replacement": "two"}
    async with terminal(shared_daemon) as page:
        written = (await run_tool(page, "fs_write", path="told.txt", content="one\n")).json()
        patched = (await run_tool(page, "fs_patch", path="told.txt", operations=[edit])).json()
        refused = await run_tool(page, "fs_patch", path="told.txt", operations=[{**edit, "pattern": "zebra"}])
        ran = await run_tool(page, "shell_exec", command="cat told.txt")
    path = str(shared_daemon.home / "told.txt")
    assert (written["path"], patched["path"]) == (path, path)
    assert "4 bytes written, new" in written["text"]
    assert "undo " in patched["text"]
    # What failed changed nothing, and what a command prints stays a text.
    assert (refused.status_code, refused.headers["content-type"]) == (400, "text/plain; charset=utf-8")
    assert ran.headers["content-type"] == "text/plain; charset=utf-8"
    assert "two" in ran.text


def test_an_id_that_another_tool_has_is_left_to_it() -> None:
    tools = {"fs_write", "fs_patch", "write_file"}
    ids = {"fs_write": "fs_write", "fs_patch": "replace_file_content", "write_file": "write_file"}
    assert operation_ids_for(tools, _KNOWN) == ids


async def test_a_url_without_the_path_of_the_terminal_works(shared_daemon: Daemon) -> None:
    """Seen: people paste the address of the daemon alone."""
    headers = {"Authorization": f"Bearer {shared_daemon.token}", "X-User-Id": "u-1", "X-Session-Id": "bare"}
    async with httpx2.AsyncClient(base_url=shared_daemon.url, headers=headers) as page:
        assert (await page.get("/api/config")).json()["features"]["terminal"] is True
        assert (await page.get("/files/cwd")).json()["cwd"] == str(shared_daemon.home)
        ran = await page.post("/tools/shell_exec", json={"command": "echo bare"})
        assert ran.text.endswith("bare\n")
        assert [each["command"] for each in (await page.get("/execute")).json()] == ["echo bare"]
        sent = await page.post("/files/upload", params={"directory": str(shared_daemon.home)}, files={"file": b"x"})
        assert sent.status_code == 200, sent.text
        assert (await page.post("/api/terminals")).json()["id"]
    async with shared_daemon.http() as program:
        assert (await program.post("/tools/shell_exec", json={"command": "echo bare"})).json()["stdout"] == "bare\n"


async def test_the_instructions_are_of_the_caller_and_of_the_machine(shared_daemon: Daemon) -> None:
    name = f"reader-{uuid.uuid4().hex[:6]}"
    token = shared_daemon.cli("token", "create", name, "--profile", "read-only").stdout.split()[-1]
    async with terminal(shared_daemon) as page, terminal(shared_daemon, token=token) as reader:
        told = (await get(page, "/system"))["prompt"]
        narrow = (await get(reader, "/system"))["prompt"]
    assert "shell_exec for what ends by itself" in told
    assert f"They run in sh on {platform.freedesktop_os_release()['PRETTY_NAME']}, {platform.machine()}." in told
    # What no program of OpenAPI can read.
    assert "host://" not in told
    assert "Files: find with fs_search and fs_grep, read with fs_read_range.\n" in narrow
    for absent in ("fs_patch", "fs_move", "shell_", "undo_id", "run_command"):
        assert absent not in narrow
