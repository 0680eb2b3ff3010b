"""The file browser of Open WebUI, with the requests that its page sends."""

from __future__ import annotations

import asyncio
import io
import json
import os
import time
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.daemon import Daemon, running
from tests.support.open_terminal import get, post, terminal
from tests.support.waiting import eventually
from tools.context import Cancelled, ToolContext
from tools.files.paths import OpenPaths
from tools.filesystem.raw_files import MOST_ARCHIVE_BYTES, make_archive


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("home")) as started:
        yield started


@pytest.fixture
def folder(browsed: Daemon, request: pytest.FixtureRequest) -> Path:
    """A folder of the test's own, on the machine of the daemon."""
    folder = browsed.home / str(request.node.name)
    (folder / "src").mkdir(parents=True)
    (folder / "README.md").write_text("# One\ntwo")
    (folder / "src" / "main.py").write_text("print('needle')\n")
    return folder


async def test_the_page_begins_in_the_working_directory(browsed: Daemon) -> None:
    async with terminal(browsed, chat="fresh") as page:
        assert await get(page, "/files/cwd") == {"cwd": str(browsed.home), "home": str(browsed.home)}


async def test_a_folder_is_listed_with_times_and_rights(browsed: Daemon, folder: Path) -> None:
    async with terminal(browsed) as page:
        listing = await get(page, "/files/list", directory=f"{folder}/")
    modified = {name: int((folder / name).stat().st_mtime) for name in ("README.md", "src")}
    assert listing == {
        "dir": str(folder),
        "writable": True,
        "entries": [
            {"name": "README.md", "type": "file", "size": 9, "modified": modified["README.md"], "writable": True},
            {"name": "src", "type": "directory", "size": 0, "modified": modified["src"], "writable": True},
        ],
    }


async def test_each_chat_of_each_user_has_its_own_folder(browsed: Daemon, folder: Path) -> None:
    async with (
        terminal(browsed, chat="a") as page,
        terminal(browsed, chat="b") as other,
        terminal(browsed, user="u-2", chat="a") as stranger,
    ):
        assert await post(page, "/files/cwd", path=str(folder)) == {"cwd": str(folder)}
        assert await post(page, "/files/cwd", path="src") == {"cwd": str(folder / "src")}
        assert (await get(page, "/files/read", path="main.py"))["content"] == "print('needle')\n"
        for each in (other, stranger):
            assert (await get(each, "/files/cwd"))["cwd"] == str(browsed.home)


async def test_a_text_is_read_with_its_lines_counted(browsed: Daemon, folder: Path) -> None:
    async with terminal(browsed) as page:
        path = str(folder / "README.md")
        assert await get(page, "/files/read", path=path) == {"path": path, "total_lines": 2, "content": "# One\ntwo"}


async def test_a_missing_agents_file_is_no_failure(browsed: Daemon) -> None:
    async with terminal(browsed, chat="agents") as page:
        home = (await get(page, "/files/cwd"))["home"]
        answers = [await page.get("/files/read", params={"path": f"{home}/{name}"}) for name in ("AGENTS.md", "no.md")]
    assert [each.status_code for each in answers] == [404, 404]
    calls = [json.loads(line) for line in browsed.cli("audit", "--json").stdout.splitlines()]
    last = [each["outcome"] for each in calls if each.get("tool") == "fs_read"][-2:]
    assert last == ["ok", "NOT_FOUND"]


async def test_a_file_is_viewed_as_the_bytes_that_it_is(browsed: Daemon, folder: Path) -> None:
    data = bytes(range(256)) * 4_000
    (folder / "data.pdf").write_bytes(data)
    async with terminal(browsed) as page:
        answer = await page.get("/files/view", params={"path": str(folder / "data.pdf")})
    assert (answer.status_code, answer.content) == (200, data)
    assert answer.headers["content-type"] == "application/pdf"
    # Opened by itself in a browser it must do nothing.
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_probes_are_answered_at_once_while_a_large_file_is_sent(browsed: Daemon, folder: Path) -> None:
    size = (1024 if os.environ.get("MCP_AGENT_TEST_LONG") else 128) * 1024 * 1024
    with (folder / "large.bin").open("wb") as file:
        file.truncate(size)

    async with terminal(browsed) as page, terminal(browsed, chat="other") as other:
        received = 0
        async with page.stream("GET", "/files/view", params={"path": str(folder / "large.bin")}) as answer:
            async for chunk in answer.aiter_raw():
                received += len(chunk)
                if received % (16 * 1024 * 1024) < len(chunk):
                    began = time.monotonic()
                    await get(other, "/api/config")
                    # Open WebUI gives a probe three seconds.
                    assert time.monotonic() - began < 2.0
    assert received == size


async def test_an_upload_replaces_a_file_and_can_be_undone(browsed: Daemon, folder: Path) -> None:
    path = folder / "README.md"
    async with terminal(browsed) as page:
        answer = await page.post(
            "/files/upload", params={"directory": str(folder)}, files={"file": ("README.md", b"\x00new\xff")}
        )
    told = answer.json()
    assert (told["path"], told["size"]) == (str(path), 5)
    assert path.read_bytes() == b"\x00new\xff"
    assert browsed.cli("undo", told["undo_id"]).returncode == 0
    assert path.read_text() == "# One\ntwo"


async def test_an_upload_of_many_megabytes_arrives_whole(browsed: Daemon, folder: Path) -> None:
    data = b"0123456789abcdef" * (24 * 65_536)
    async with terminal(browsed) as page:
        answer = await page.post(
            "/files/upload", params={"directory": str(folder / "new" / "deep")}, files={"file": ("big.bin", data)}
        )
    assert answer.json()["size"] == len(data)
    assert (folder / "new" / "deep" / "big.bin").read_bytes() == data


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"other": ("a.txt", b"x")}, "the form has no file in it"),
        ({"file": ("..", b"x")}, "the file in the form has no name"),
    ],
)
async def test_a_form_without_a_good_file_is_refused(browsed: Daemon, folder: Path, files: Any, told: str) -> None:
    async with terminal(browsed) as page:
        answer = await page.post("/files/upload", params={"directory": str(folder)}, files=files)
    assert (answer.status_code, answer.json()["detail"]) == (400, told)


async def test_a_name_with_a_path_in_it_stays_in_the_folder(browsed: Daemon, folder: Path) -> None:
    async with terminal(browsed) as page:
        answer = await page.post(
            "/files/upload", params={"directory": str(folder / "src")}, files={"file": ("../../up.txt", b"x")}
        )
    assert answer.json()["path"] == str(folder / "src" / "up.txt")


async def test_no_other_path_takes_a_form(browsed: Daemon) -> None:
    async with terminal(browsed) as page:
        answer = await page.post("/files/mkdir", files={"file": ("a", b"x")})
    assert answer.status_code == 415


async def test_folders_are_made_moved_and_deleted(browsed: Daemon, folder: Path) -> None:
    async with terminal(browsed) as page:
        made, moved = str(folder / "made"), str(folder / "moved")
        undo_id = (await post(page, "/files/mkdir", path=made))["undo_id"]
        assert browsed.cli("undo", undo_id).returncode == 0
        assert not Path(made).exists()
        assert (await post(page, "/files/mkdir", path=made))["path"] == made
        assert (await page.post("/files/mkdir", json={"path": made})).status_code == 409
        answer = await post(page, "/files/move", source=made, destination=moved)
        assert answer == {"source": made, "destination": moved}
        taken = await page.post("/files/move", json={"source": moved, "destination": str(folder / "README.md")})
        assert taken.status_code == 409
        assert "README.md" in taken.json()["detail"]
        gone = await page.delete("/files/delete", params={"path": str(folder / "src")})
        assert gone.json() == {"path": str(folder / "src"), "type": "directory"}
    assert sorted(each.name for each in folder.iterdir()) == ["README.md", "moved"]


async def test_names_are_found_best_match_first(browsed: Daemon, folder: Path) -> None:
    for name in ("read", "bread.txt", "READER.txt", ".read"):
        (folder / name).write_text("")
    async with terminal(browsed) as page:
        found = await get(page, "/files/search", query="read", path=str(folder), limit=20, type="file")
        hidden = await get(page, "/files/search", query=".read", path=str(folder), show_hidden="true")
    assert [each["name"] for each in found["results"]] == ["read", "README.md", "READER.txt", "bread.txt"]
    assert [each["name"] for each in hidden["results"]] == [".read"]


async def test_contents_are_found_with_their_lines(browsed: Daemon, folder: Path) -> None:
    async with terminal(browsed) as page:
        found = await get(page, "/files/matches", query="NEEDLE", path=str(folder))
    assert found == {
        "results": [
            {
                "path": str(folder / "src" / "main.py"),
                "relative_path": "src/main.py",
                "name": "main.py",
                "type": "file",
                "name_match": False,
                "content_matches": [{"line": 1, "column": 8, "text": "print('needle')"}],
            }
        ],
        "next_offset": None,
    }


async def test_folders_are_downloaded_as_an_archive(browsed: Daemon, folder: Path) -> None:
    async with terminal(browsed) as page:
        answer = await page.post("/files/archive", json={"paths": [str(folder / "src"), str(folder / "README.md")]})
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == 'attachment; filename="download.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            "src/main.py": b"print('needle')\n",
            "README.md": b"# One\ntwo",
        }


@pytest.mark.parametrize(
    ("method", "path", "status", "told"),
    [
        ("GET", "/files/list?directory=/nowhere", 404, "/nowhere"),
        ("GET", "/files/read?path=/nowhere", 404, "/nowhere does not exist"),
        ("GET", "/files/read", 400, "the parameter path is missing"),
        ("GET", "/files/view?path=/dev/null", 400, "a pipe, a socket or a device"),
        ("GET", "/files/matches?query=", 400, "the query is empty"),
        ("POST", "/files/mkdir", 400, "the body must be"),
        ("POST", "/files/archive", 400, "the body must"),
        ("DELETE", "/files/delete?path=/nowhere", 404, "/nowhere"),
        ("GET", "/api/v1/policies", 404, "there is nothing at GET /open-terminal/api/v1/policies"),
        ("PUT", "/files/list", 404, "there is nothing at PUT"),
    ],
)
async def test_what_cannot_be_done_is_told_in_a_sentence(
    browsed: Daemon, method: str, path: str, status: int, told: str
) -> None:
    body = {"content": b"[]", "headers": {"content-type": "application/json"}} if method == "POST" else {}
    async with terminal(browsed) as page:
        answer = await page.request(method, path, **body)  # type: ignore[arg-type]  # the two arguments differ in type
    assert answer.status_code == status, answer.text
    assert told in answer.json()["detail"]
    assert answer.json()["error"]["message"] == answer.json()["detail"]


async def test_rules_and_profiles_hold_and_the_audit_log_names_the_user(home: Path) -> None:
    (home / "secret").mkdir()
    (home / "secret" / "key.txt").write_text("hidden")
    (home / "open.txt").write_text("open")
    (home / "tools.json").write_text(
        '{"version": 1, "activeProfile": "default", "profiles": [{"id": "default", "deny": {"paths": '
        '[{"id": "secrets", "pattern": "**/secret/**", "reason": "not for a chat"}]}}]}'
    )
    with running(home) as daemon:
        token = daemon.cli("token", "create", "viewer", "--profile", "read-only").stdout.splitlines()[1]
        async with terminal(daemon) as page, terminal(daemon, token=token) as viewer:
            key = str(home / "secret" / "key.txt")
            for path in ("/files/read", "/files/view"):
                denied = await page.get(path, params={"path": key})
                assert (denied.status_code, "not for a chat" in denied.json()["detail"]) == (403, True)
            archive = await page.post("/files/archive", json={"paths": [str(home)]})
            with zipfile.ZipFile(io.BytesIO(archive.content)) as files:
                names = files.namelist()
            assert f"{home.name}/open.txt" in names
            assert [name for name in names if "secret" in name or name.endswith("/token")] == []
            assert (await get(viewer, "/api/config"))["features"]["terminal"] is False
            listing = await get(viewer, "/files/list", directory=str(home))
            assert listing["writable"] is False
            assert {entry["writable"] for entry in listing["entries"]} == {False}
            assert await get(viewer, "/execute") == []
            for refused in (
                await viewer.delete("/files/delete", params={"path": str(home / "open.txt")}),
                await viewer.post("/files/mkdir", json={"path": str(home / "new")}),
                await viewer.post("/files/upload", params={"directory": str(home)}, files={"file": ("a", b"x")}),
            ):
                assert refused.status_code == 403, refused.text
                assert "disabled" in refused.json()["detail"] or "switched off" in refused.json()["detail"]
        shown = daemon.cli("audit", "--json").stdout
    assert '"claimed_user":"u-1"' in shown.replace(" ", "")
    assert (home / "open.txt").read_text() == "open"


def _sparse(path: Path, size: int) -> Path:
    """A file that takes no room on the disk and long to compress."""
    with path.open("wb") as file:
        file.truncate(size)
    return path


async def test_an_archive_that_is_too_large_is_refused_before_it_is_made(browsed: Daemon, folder: Path) -> None:
    _sparse(folder / "src" / "large", MOST_ARCHIVE_BYTES + 1)
    began = time.monotonic()
    async with terminal(browsed) as page:
        refused = await page.post("/files/archive", json={"paths": [str(folder)]})
    assert (refused.status_code, "files of 1073741824 bytes together" in refused.text) == (413, True)
    assert time.monotonic() - began < 3


async def test_archives_that_are_broken_off_are_ended_and_of_many_at_once_most_are_refused(
    browsed: Daemon, folder: Path
) -> None:
    large = str(_sparse(folder / "large", 1_000_000_000))
    async with terminal(browsed) as page:
        asked = [asyncio.create_task(page.post("/files/archive", json={"paths": [large]})) for _ in range(8)]
        done, pending = await asyncio.wait(asked, timeout=2)
        assert {each.result().status_code for each in done} == {429}
        assert len(pending) == 2
        for each in pending:
            each.cancel()
        await asyncio.wait(pending)

        async def small() -> int:
            return (await page.post("/files/archive", json={"paths": [str(folder / "src")]})).status_code

        # Long before the large ones would have been made.
        assert await eventually(small, lambda status: status == 200, within_s=3) == 200


async def test_making_an_archive_ends_in_the_middle_of_a_file(tmp_path: Path) -> None:
    context = ToolContext("a-call", OpenPaths(tmp_path))
    making = asyncio.create_task(
        asyncio.to_thread(make_archive, context, [str(_sparse(tmp_path / "large", 1_000_000_000))])
    )
    await asyncio.sleep(0.5)
    context.is_cancelled = True
    with pytest.raises(Cancelled):
        await asyncio.wait_for(making, 3)


async def test_looking_for_files_to_archive_ends_where_there_are_only_folders(tmp_path: Path) -> None:
    (tmp_path / "one" / "two").mkdir(parents=True)
    context = ToolContext("a-call", OpenPaths(tmp_path))
    context.is_cancelled = True
    with pytest.raises(Cancelled):
        make_archive(context, [str(tmp_path)])


async def test_a_name_with_control_characters_is_no_header_of_its_own(browsed: Daemon, folder: Path) -> None:
    odd = folder / 'a\r\nx-evil: "1\x1b\x7fé.zip'
    odd.write_bytes(b"bytes")
    async with terminal(browsed) as page:
        for answer in (
            await page.get("/files/view", params={"path": os.fspath(odd)}),
            await page.post("/files/archive", json={"paths": [os.fspath(odd)]}),
        ):
            assert answer.status_code == 200
            assert answer.headers["content-disposition"].startswith('attachment; filename="a__x-evil: _1___.zip')
            assert "x-evil" not in answer.headers


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "1e999", "one"])
async def test_a_number_that_is_none_is_told(browsed: Daemon, number: str) -> None:
    async with terminal(browsed) as page:
        for path in (f"/files/search?query=a&limit={number}", f"/files/matches?query=a&offset={number}"):
            answer = await page.get(path)
            assert (answer.status_code, "must be a number" in answer.text) == (400, True)


async def test_an_upload_that_is_not_allowed_is_refused_before_it_is_read(browsed: Daemon, folder: Path) -> None:
    shown = browsed.cli("token", "create", "uploader", "--profile", "read-only").stdout.splitlines()[1]
    read = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        yield b'--b\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\n'
        for _ in range(300):
            read += 100_000
            yield b"x" * 100_000
            await asyncio.sleep(0.01)

    async with terminal(browsed, token=shown) as viewer:
        request = viewer.build_request(
            "POST",
            "/files/upload",
            params={"directory": str(folder)},
            content=body(),
            headers={"content-type": "multipart/form-data; boundary=b"},
        )
        with suppress(httpx2.TransportError):
            refused = await viewer.send(request)
            assert refused.status_code == 403
    assert read < 15_000_000


async def test_archives_that_their_clients_do_not_take_are_bounded_too(browsed: Daemon, folder: Path) -> None:
    """Seen: each was a file on the disk for as long as its client pleased, and any number could be asked for."""
    (folder / "noise").write_bytes(os.urandom(16 * 1024 * 1024))
    asked: dict[str, Any] = {"json": {"paths": [str(folder)]}}
    async with terminal(browsed) as page, AsyncExitStack() as unread:
        for _ in range(4):
            held = await unread.enter_async_context(page.stream("POST", "/files/archive", **asked))
            assert held.status_code == 200
        refused = await page.post("/files/archive", **asked)
        assert (refused.status_code, refused.json()["detail"]) == (429, "too many archives are asked for at once")
        await unread.aclose()
        await eventually(lambda: page.post("/files/archive", **asked), lambda answer: answer.status_code == 200)


@pytest.mark.parametrize("query", ["!important", "^a", "a,b", "a{b}c", "[x]", "back\\\\slash"])
async def test_a_name_is_found_by_characters_that_mean_something_in_globs(
    browsed: Daemon, folder: Path, query: str
) -> None:
    """Seen: a search for `!important` found all that is not `i`."""
    (folder / f"not {query.upper()}.txt").touch()
    (folder / "other important.txt").touch()
    async with terminal(browsed) as page:
        found = await get(page, "/files/search", query=query, path=str(folder))
    assert [each["name"] for each in found["results"]] == [f"not {query.upper()}.txt"]
