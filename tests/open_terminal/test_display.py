"""What a model shows to the person in Open WebUI, and what it is told of a picture."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.open_terminal import get, post, run_tool, terminal

_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


@pytest.fixture
def folder(shared_daemon: Daemon, tmp_path: Path) -> Path:
    (tmp_path / "plot.png").write_bytes(_PIXEL)
    (tmp_path / "note.txt").write_text("a note\n")
    return tmp_path


async def test_a_file_is_displayed_by_its_absolute_path(shared_daemon: Daemon, folder: Path) -> None:
    async with terminal(shared_daemon, chat="display") as page:
        operation = (await get(page, "/openapi.json"))["paths"]["/files/display"]["post"]
        assert operation["operationId"] == "display_file"
        shown = await post(page, "/files/display", path=f"{folder}/sub/../plot.png")
        missing = await post(page, "/files/display", path=str(folder / "no.png"))
        await post(page, "/files/cwd", path=str(folder))
        relative = await post(page, "/files/display", path="plot.png")
    path = str(folder / "plot.png")
    assert shown == relative == {"path": path, "exists": True, "text": f"{path} is shown"}
    assert (missing["exists"], missing["text"]) == (False, f"there is no file {folder}/no.png")


async def test_only_those_who_may_read_can_display(shared_daemon: Daemon, folder: Path) -> None:
    created = shared_daemon.cli("token", "create", "browser", "--profile", "browser-only")
    token = created.stdout.split()[-1]
    async with terminal(shared_daemon, token=token) as page:
        assert "/files/display" not in (await get(page, "/openapi.json"))["paths"]
        refused = await page.post("/files/display", json={"path": str(folder / "plot.png")})
    assert refused.status_code == 403


async def test_the_tool_that_displays_is_of_no_other_wire(shared_daemon: Daemon) -> None:
    async with shared_daemon.http() as http:
        paths = (await get(http, "/openapi.json"))["paths"]
    assert [each for each in paths if "display" in each] == []


async def test_an_image_reaches_the_model_with_the_text_that_says_what_it_is(
    shared_daemon: Daemon, folder: Path
) -> None:
    async with terminal(shared_daemon) as page:
        answer = (await run_tool(page, "fs_read", path=str(folder / "plot.png"))).json()
    assert answer["image"] == f"data:image/png;base64,{base64.b64encode(_PIXEL).decode()}"
    assert answer["text"].startswith(f"{folder}/plot.png · PNG image of 1 × 1 pixels · {len(_PIXEL)} bytes")


async def test_what_the_model_calls_begins_in_the_folder_that_open_webui_tells_it(
    shared_daemon: Daemon, folder: Path
) -> None:
    async with terminal(shared_daemon, chat="moved") as page, terminal(shared_daemon, chat="elsewhere") as other:
        await post(page, "/files/cwd", path=str(folder))
        told = (await get(page, "/files/cwd"))["cwd"]
        ran = await run_tool(page, "shell_exec", command="pwd")
        again = await run_tool(page, "fs_read", path="note.txt")
        stayed = await run_tool(other, "shell_exec", command="pwd")
        assert f"Relative paths count from {folder};" in (await get(page, "/system"))["prompt"]
    assert told == str(folder)
    assert ran.text.splitlines()[0] == f"[relative paths begin in {folder}]"
    assert ran.text.splitlines()[-1] == str(folder)
    assert again.text.endswith("a note\n")
    assert stayed.text.splitlines()[-1] == str(shared_daemon.home)
