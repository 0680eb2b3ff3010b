from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.bench import Bench
from tools.context import ToolContext
from tools.files.paths import OpenPaths, from_wire, to_wire
from tools.kit.errors import ToolError

_IS_LONG = "MCP_AGENT_TEST_LONG" in os.environ
_EVERY = [
    ("fs_read", {"path": "{}"}),
    ("fs_read_range", {"path": "{}", "start_line": 1, "end_line": 1}),
    ("fs_write", {"path": "{}", "content": "x"}),
    ("fs_patch", {"path": "{}", "operations": [{"type": "replace_first", "pattern": "x", "replacement": "y"}]}),
    ("fs_grep", {"base": "{}", "pattern": "x"}),
]


def _with(arguments: dict[str, object], path: str) -> dict[str, object]:
    return {key: path if value == "{}" else value for key, value in arguments.items()}


@pytest.mark.parametrize(("tool", "arguments"), _EVERY)
@pytest.mark.parametrize(
    ("path", "codes"),
    [
        ("a\0b", {"INVALID_PATH"}),
        ("", {"INVALID_PATH"}),
        ("loop", {"INVALID_PATH"}),
        ("pipe", {"IS_SPECIAL"}),
        ("socket", {"IS_SPECIAL"}),
        ("/dev/null", {"IS_SPECIAL"}),
        ("x" * 256, {"INVALID_PATH"}),
        ("file/below", {"NOT_A_DIRECTORY"}),
    ],
)
def test_an_odd_place_is_a_clear_error(
    bench: Bench, tool: str, arguments: dict[str, object], path: str, codes: set[str]
) -> None:
    (bench.folder / "loop").symlink_to("loop")
    os.mkfifo(bench.folder / "pipe")
    bench.file("file")
    with contextlib.chdir(bench.folder), socket.socket(socket.AF_UNIX) as listener:
        # From inside: the name of a socket may have no more than 107 bytes.
        listener.bind("socket")
        error = bench.error(tool, **_with(arguments, path))
    assert error.code in codes, error.message


@pytest.mark.parametrize("name", ["new\nline", "tab\there", "x" * 255, "ümläut ☃", "-rf", "a b'c\"d", "\\x41", "%41"])
def test_an_odd_name_works_everywhere(bench: Bench, name: str) -> None:
    bench.call("fs_write", path=name, content="one\n")
    bench.patch(name, type="insert_after", match="one", insert="two")
    assert bench.call("fs_read", path=name)["content"] == "one\ntwo\n"
    assert [entry["path"] for entry in bench.call("fs_list", path=".")["entries"]] == [to_wire(bench.folder / name)]
    (match,) = bench.call("fs_grep", base=".", pattern="two")["matches"]
    assert match["path"] == to_wire(bench.folder / name)
    moved = bench.call("fs_move", from_=name, to="plain")
    bench.undo(moved["undo_id"], "plain")
    bench.call("fs_delete", path=name)
    assert list(bench.folder.iterdir()) == []


@pytest.mark.parametrize("name", [b"caf\xe9", b"\xff\xfe", b"a\\xe9b", b"a\\x5cb", b"\\", b"mixed\xc3\xa9\xe9\\xff"])
def test_a_name_that_is_no_utf_8_is_told_so_that_it_can_be_passed_back(bench: Bench, name: bytes) -> None:
    path = os.fsencode(bench.folder) + b"/" + name
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    (entry,) = bench.call("fs_list", path=".")["entries"]
    entry["path"].encode()
    assert os.fsencode(bench.ctx.paths.resolve(entry["path"])) == path
    assert bench.call("fs_read", path=entry["path"])["path"] == entry["path"]
    assert from_wire(to_wire(os.fsdecode(path))) == os.fsdecode(path)


def test_files_of_proc_are_read(bench: Bench) -> None:
    assert bench.call("fs_read", path="/proc/self/status")["content"].startswith("Name:")
    lines = bench.call("fs_read_range", path="/proc/self/status", start_line=1, end_line=1)
    assert lines["content"].startswith("Name:")


def test_deleting_what_is_not_there_and_moving_into_oneself_are_errors(bench: Bench) -> None:
    (bench.folder / "d").mkdir()
    assert bench.error("fs_delete", path="nothing").code == "NOT_FOUND"
    assert bench.error("fs_move", from_="nothing", to="x").code == "NOT_FOUND"
    assert bench.error("fs_move", from_="d", to="d/e").code == "INVALID_PATH"
    assert bench.error("fs_delete", path="/", recursive=True).code == "INVALID_PATH"
    assert bench.error("fs_write", path="d", content="x").code == "NOT_A_FILE"


def test_a_link_is_deleted_and_not_what_it_leads_to(bench: Bench) -> None:
    bench.file("real", "x")
    (bench.folder / "link").symlink_to("real")
    bench.call("fs_delete", path="link")
    assert (bench.folder / "real").exists()
    assert not os.path.lexists(bench.folder / "link")


@pytest.mark.parametrize(("tool", "arguments"), [*_EVERY, ("fs_delete", {"path": "{}"}), ("fs_list", {"path": "{}"})])
@pytest.mark.parametrize("way", ["plainly", "through a link", "through a folder's link", "with dots"])
def test_the_daemons_own_files_are_closed(bench: Bench, tool: str, arguments: dict[str, object], way: str) -> None:
    bench.state.mkdir()
    (bench.state / "token").write_text("xsecret")
    (bench.state / "token-not").write_text("x")
    (bench.folder / "link").symlink_to(bench.state / "token")
    (bench.folder / "folder").symlink_to(bench.state)
    path = {
        "plainly": str(bench.state / "token"),
        "through a link": "link",
        "through a folder's link": "folder/token",
        "with dots": "../state/./token",
    }[way]
    if tool == "fs_delete" and way == "through a link":
        bench.call(tool, path=path)
    else:
        assert bench.error(tool, **_with(arguments, path)).code in ("DENIED", "NOT_A_DIRECTORY")
    assert (bench.state / "token").read_text() == "xsecret"
    assert bench.call("fs_read", path=str(bench.state / "token-not"))["content"] == "x"


def test_a_search_above_the_daemons_own_files_leaves_them_out(bench: Bench) -> None:
    bench.file("mine", "needle")
    bench.call("fs_write", path="mine", content="needle 2")
    (bench.state / "token").write_text("needle")
    above = str(bench.folder.parent)
    assert [match["path"] for match in bench.call("fs_grep", base=above, pattern="needle")["matches"]] == [
        str(bench.folder / "mine")
    ]
    found = bench.call("fs_search", base=above, glob="**")["matches"]
    assert not [match for match in found if "journal" in match["path"] or "token" in match["path"]]
    assert bench.error("fs_delete", path=str(bench.state), recursive=True).code == "DENIED"
    assert bench.error("fs_move", from_=str(bench.state), to="elsewhere").code == "DENIED"


def test_a_folder_with_very_many_entries_is_listed_page_by_page(bench: Bench) -> None:
    count = 200_000 if _IS_LONG else 20_000
    for number in range(count):
        os.close(os.open(bench.folder / f"{number:06}", os.O_CREAT | os.O_WRONLY))
    first = bench.call("fs_list", path=".")
    assert (len(first["entries"]), first["next"]) == (1_000, f"{bench.folder}/000999")
    last = bench.call("fs_list", path=".", after=f"{count - 3:06}")
    assert [entry["path"][-6:] for entry in last["entries"]] == [f"{count - 2:06}", f"{count - 1:06}"]
    whole = bench.call("fs_list", path=".", max_entries=count)
    assert len(whole["entries"]) == count


def test_a_full_disk_changes_nothing_and_is_told(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no right to mount here")
    try:
        bench = Bench(tmp_path)
        (disk / "file").write_text("old")
        error = bench.error("fs_write", path=str(disk / "file"), content="x" * 400_000)
        assert error.code == "IO_ERROR"
        assert "no space left" in error.message
        assert (disk / "file").read_text() == "old"
        os.link(disk / "file", disk / "twin")
        assert bench.error("fs_write", path=str(disk / "file"), content="x" * 400_000).code == "IO_ERROR"
        assert (disk / "twin").read_text() == "old"
        assert [path.name for path in sorted(disk.iterdir())] == ["file", "twin"]
        journal_on_it = Bench(disk)
        journal_on_it.file("plain", "old")
        _fill(disk / "fill")
        changed = journal_on_it.call("fs_write", path=str(tmp_path / "outside"), content="new")
        assert (tmp_path / "outside").read_text() == "new"
        assert changed.get("undoable") is False or "undo_id" in changed
    finally:
        subprocess.run(["umount", disk], check=True)


def _fill(path: Path) -> None:
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4_096)
        except OSError:
            return


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to be")
def test_what_the_user_may_not_do_is_told_and_leaves_nothing() -> None:
    """In a folder of its own: those of pytest are closed to other users, and so may be this checkout."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        root.chmod(0o755)
        bench = Bench(root)
        bench.file("theirs", "x").chmod(0o600)
        # All that the tools import is loaded before the process becomes another user, who need not be able to.
        code = f"""
import os
from pathlib import Path
from tests.support.bench import TOOLS
from tools.context import ToolContext
from tools.kit.errors import ToolError
from tools.files.paths import OpenPaths

def code_of(name, arguments):
    ctx = ToolContext("t", OpenPaths(Path({str(bench.folder)!r})))
    try:
        TOOLS[name].function(ctx, **TOOLS[name].parse(arguments))
    except ToolError as error:
        return error.code
    return "done"

for name, arguments in (
    ("fs_write", {{"path": "first", "content": "y"}}),
    ("fs_write", {{"path": "first", "content": "y", "mode": "append"}}),
    ("fs_read", {{"path": "first"}}),
    ("fs_move", {{"from": "first", "to": "second"}}),
    ("fs_delete", {{"path": "second", "permanent": True}}),
):
    assert code_of(name, arguments) == "done", name
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for name, arguments in (
    ("fs_read", {{"path": "theirs"}}),
    ("fs_write", {{"path": "theirs", "content": "y"}}),
    ("fs_write", {{"path": "theirs", "content": "y", "mode": "append"}}),
    ("fs_write", {{"path": "new", "content": "y"}}),
    ("fs_move", {{"from": "theirs", "to": "mine"}}),
    ("fs_delete", {{"path": "theirs", "permanent": True}}),
):
    print(code_of(name, arguments))
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.stdout.split() == ["PERMISSION_DENIED"] * 6, done.stderr
        assert ((bench.folder / "theirs").read_text(), bench.litter()) == ("x", [])


def test_a_context_without_a_journal_changes_files_and_says_so(tmp_path: Path) -> None:
    from tests.support.bench import TOOLS

    ctx = ToolContext("t", OpenPaths(tmp_path))
    tool = TOOLS["fs_write"]
    result = tool.function(ctx, **tool.parse({"path": "x", "content": "y"})).as_object()
    assert (result["undoable"], result["why"]) == (False, "no journal is kept")
    with pytest.raises(ToolError):
        ctx.journal.undo("x")


def test_a_name_that_is_nearly_right_is_told(bench: Bench) -> None:
    bench.file("README.md", "x")
    bench.state.mkdir()
    (bench.state / "token").write_text("secret")
    assert bench.error("fs_read", path="Readme.md").hint == f"did you mean {bench.folder}/README.md?"
    assert bench.error("fs_read", path="nothing").hint == "list the folder it should be in with fs_list"
    closed = bench.error("fs_read", path=str(bench.state / "tokem"))
    assert (closed.code, closed.hint) == ("NOT_FOUND", "list the folder it should be in with fs_list")
