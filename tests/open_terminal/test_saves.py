"""What a person saves in Open WebUI's editor, which does not know how a file was written, nor who else writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.daemon import Daemon, running
from tests.support.open_terminal import get, run_tool, terminal
from tools.filesystem.raw_files import as_written_before


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("home")) as started:
        yield started


async def _save(page: httpx2.AsyncClient, path: Path, text: str, kind: str = "text/plain") -> httpx2.Response:
    """As the editor does: a form with the file, as text in UTF-8."""
    file = (path.name, text.encode(), kind)
    return await page.post("/files/upload", params={"directory": f"{path.parent}/"}, files={"file": file})


async def test_a_save_of_a_file_that_changed_since_it_was_opened_is_refused(edited: Daemon) -> None:
    path = edited.home / "plan.md"
    path.write_text("one\n")
    edit = {"type": "replace_first", "pattern": "one", "replacement": "the model's"}
    async with terminal(edited) as page:
        await get(page, "/files/read", path=str(path))
        assert (await run_tool(page, "fs_patch", path=str(path), operations=[edit])).status_code == 200
        refused = await _save(page, path, "the person's\n")
        assert path.read_text() == "the model's\n"
        assert (await get(page, "/files/read", path=str(path)))["content"] == "the model's\n"
        saved = [await _save(page, path, text) for text in ("both\n", "both, again\n")]
    detail = f"{path} has changed since you opened it, so it was not saved"
    assert (refused.status_code, refused.json()["detail"]) == (409, detail)
    assert [each.status_code for each in saved] == [200, 200]
    for before, each in zip(("both\n", "the model's\n"), reversed(saved), strict=True):
        assert edited.cli("undo", each.json()["undo_id"]).returncode == 0
        assert path.read_text() == before


async def test_each_chat_and_user_has_opened_its_own_files(edited: Daemon) -> None:
    path, link = edited.home / "shared.txt", edited.home / "link.txt"
    path.write_text("one\n")
    link.symlink_to(path)
    async with (
        terminal(edited, chat="a") as page,
        terminal(edited, chat="b") as other,
        terminal(edited, user="u-2", chat="a") as stranger,
    ):
        for each in (page, other):
            await get(each, "/files/read", path=str(link))
        # Who has not opened it has nothing that could be old.
        assert (await _save(stranger, path, "two\n")).status_code == 200
        assert [(await _save(each, path, "three\n")).status_code for each in (page, other)] == [409, 409]
        await get(page, "/files/read", path=str(path))
        assert (await _save(page, path, "three\n")).status_code == 200
        assert (await _save(other, path, "four\n", "application/json")).status_code == 409
    assert path.read_text() == "three\n"


async def test_a_file_that_is_gone_since_is_saved(edited: Daemon) -> None:
    path = edited.home / "gone.txt"
    path.write_text("one\n")
    async with terminal(edited) as page:
        await get(page, "/files/read", path=str(path))
        path.unlink()
        assert (await _save(page, path, "two\n")).status_code == 200
    assert path.read_text() == "two\n"


async def test_of_a_very_large_text_the_beginning_is_opened_and_never_saved(edited: Daemon) -> None:
    path = edited.home / "large.log"
    line = "one line of a log, and é\n"
    path.write_text(line * 800_000)
    size = path.stat().st_size
    async with terminal(edited, chat="large") as page, terminal(edited, chat="none") as other:
        found = await get(page, "/files/read", path=str(path))
        shown = found["content"].splitlines()
        assert found["total_lines"] == len(shown) > 80_000
        assert (shown[0], shown[-3]) == (line[:-1], line[:-1])
        assert shown[-1] == f"… {path} has {size:,} bytes and goes on. This is its beginning, which cannot be saved."
        # Without its last line it is still what was opened; with it, nothing need be remembered.
        for each, text in ((page, "changed\n"), (other, found["content"])):
            refused = await _save(each, path, text)
            detail = f"only the beginning of {path} was opened, so it was not saved"
            assert (refused.status_code, refused.json()["detail"]) == (413, detail)
        assert path.stat().st_size == size
        assert (await _save(page, path, "new\n", "application/octet-stream")).status_code == 200
        await get(page, "/files/read", path=str(path))
        assert (await _save(page, path, "newer\n")).status_code == 200


@pytest.mark.parametrize("codec", ["latin-1", "utf-8-sig", "utf-16", "utf-8"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
async def test_a_save_keeps_the_encoding_and_the_line_ends(edited: Daemon, codec: str, end: str) -> None:
    path = edited.home / f"{codec}{len(end)}.txt"
    path.write_bytes(f"café{end}au lait{end}".encode(codec))
    async with terminal(edited) as page:
        shown = (await get(page, "/files/read", path=str(path)))["content"]
        saved = await _save(page, path, shown.replace("\r\n", "\n").replace("au lait", "crème\nbrûlée"))
    assert saved.status_code == 200, saved.text
    assert path.read_bytes() == f"café{end}crème{end}brûlée{end}".encode(codec)


async def test_a_file_that_is_uploaded_stays_as_it_is(edited: Daemon) -> None:
    path = edited.home / "upload.csv"
    path.write_bytes(b"caf\xe9\r\n")
    async with terminal(edited) as page:
        await get(page, "/files/read", path=str(path))
        assert (await _save(page, path, "café\n", "text/csv")).status_code == 200
    assert path.read_bytes() == "café\n".encode()


@pytest.mark.parametrize(
    ("old", "text", "new"),
    [
        # Ends that differ are kept where the lines are, and new lines have the usual one.
        (b"a\r\nb\nc\r\nd", "a\nX\nY\nc\nd", b"a\r\nX\r\nY\r\nc\r\nd"),
        (b"a\nb\r\nc\r\nd\r\n", "a\nb\nc\nX\nd\n", b"a\nb\r\nc\r\nX\r\nd\r\n"),
        (b"a\r\nb\r\n", "a", b"a"),
        (b"a\r\nb\r\n", "", b""),
        (b"a\rb\r", "a\nb\nc", b"a\rb\rc"),
        # An editor that keeps them is believed.
        (b"a\r\nb", "a\r\nb\nc", b"a\r\nb\nc"),
        (b"caf\xe9\r\n", "café \u20ac\n", "café \u20ac\r\n".encode()),
        (b"\x00\x01\xff", "text\n", b"text\n"),
    ],
)
def test_a_text_is_written_as_its_file_was(old: bytes, text: str, new: bytes) -> None:
    assert as_written_before(old, text.encode()) == new
