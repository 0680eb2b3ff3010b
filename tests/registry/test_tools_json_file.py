"""tools.json on disk: whole before a save, whole after it, and nobody's words lost."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from registry.edits import Document, Edit, Switch, UseProfile
from registry.profiles import BadRegistry, UnknownName, default_document
from registry.tools_json_file import RegistryFile
from tests.support import ROOT
from tests.support.daemon import as_nobody
from tests.support.small_catalog import CATALOG, profile, switched
from tests.support.waiting import PATIENCE_S

_KILLS = 200 if os.environ.get("MCP_AGENT_TEST_LONG") else 8
_SWITCHES_FOR_EVER = """
import itertools, sys
from pathlib import Path
from registry.edits import Switch
from registry.tools_json_file import RegistryFile
from tests.support.small_catalog import CATALOG
file = RegistryFile(Path(sys.argv[1]), CATALOG)
for turn in itertools.count():
    file.edit(Switch(target="fs_read", enabled=turn % 2 == 0))
    print(turn, flush=True)
"""
_ADDS_TEN = """
import sys
from pathlib import Path
from registry.edits import Edit
from registry.tools_json_file import RegistryFile
from tests.support.small_catalog import CATALOG
class Keep(Edit, frozen=True):
    def apply(self, document, *_):
        document.setdefault("kept", []).append(f"{sys.argv[2]}-{turn}")
file = RegistryFile(Path(sys.argv[1]), CATALOG)
for turn in range(10):
    file.edit(Keep())
"""


class _UseNobody(Edit, frozen=True):
    def apply(self, document: Document, *_: object) -> None:
        document["activeProfile"] = "nobody"


@pytest.fixture
def file(tmp_path: Path) -> RegistryFile:
    return RegistryFile(tmp_path / "tools.json", CATALOG)


def _saved(file: RegistryFile) -> Any:
    return json.loads(file.path.read_text())


def _child(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, cwd=ROOT)


def test_a_missing_file_is_made_with_every_tool_on(tmp_path: Path) -> None:
    file = RegistryFile(tmp_path / "not" / "there" / "tools.json", CATALOG)
    file.load_or_create()
    assert _saved(file) == default_document(CATALOG)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert [each.name for each in file.path.parent.iterdir()] == ["tools.json"]


def test_a_file_that_is_there_is_left_as_it_is(file: RegistryFile) -> None:
    file.path.write_text("{}")
    file.load_or_create()
    assert file.path.read_text() == "{}"


def test_a_switch_changes_its_own_place_and_nothing_else(file: RegistryFile) -> None:
    document = {
        "$schema": "mine",
        "version": 1,
        "activeProfile": "mine",
        "profiles": [
            {
                "id": "mine",
                "note": {"kept": [1, 2.5, None, "é"]},
                "categories": [
                    {"id": "gui", "mount": {"command": "x"}},
                    {"id": "filesystem", "colour": "blue", "tools": [{"id": "fs_read", "why": "because"}]},
                ],
            }
        ],
    }
    file.path.write_text(json.dumps(document, ensure_ascii=False))
    file.edit(Switch(target="fs_read", enabled=False))
    document["profiles"][0]["categories"][1]["tools"][0]["enabled"] = False  # type: ignore[index]  # a literal
    assert _saved(file) == document
    file.edit(Switch(target="shell", enabled=False))
    document["profiles"][0]["categories"].append({"id": "shell", "enabled": False})  # type: ignore[index]  # the same
    assert _saved(file) == document
    assert list(_saved(file)) == ["$schema", "version", "activeProfile", "profiles"]
    assert "é" in file.path.read_text()


def test_comments_and_trailing_commas_are_read_and_survive_a_switch(file: RegistryFile) -> None:
    text = """\
{
  "version": 1, // of the format
  /* The only one. */
  "profiles": [
    {
      "id": "default", // "categories": []
      "categories": [
        { "id": "filesystem", "tools": [
          { "id": "fs_read", "enabled": true, "inputSchema": { /* ... */ } }, // reads
          // ... more filesystem tools
        ] },
      ],
    },
  ],
}
"""
    file.path.write_text(text)
    file.edit(Switch(target="fs_read", enabled=False))
    changed = text.replace('"fs_read", "enabled": true', '"fs_read", "enabled": false')
    assert file.path.read_text() == changed
    file.edit(Switch(target="shell", enabled=False))
    added = changed.replace(
        "        ] },\n", '        ] },\n        {\n          "id": "shell",\n          "enabled": false\n        },\n'
    )
    assert file.path.read_text() == added
    assert not file.load()["default"].allows(CATALOG.by_name["fs_read"])


def test_a_shipped_profile_is_written_out_when_it_is_first_changed(file: RegistryFile) -> None:
    file.path.write_text("{}")
    profiles = file.edit(Switch(targets=("fs_write",), enabled=False, profile="lean"))
    assert [tool.name for tool in CATALOG.tools if profiles["lean"].allows(tool)] == [
        "fs_list",
        "fs_read",
        "shell_exec",
        "browser_click",
    ]
    assert _saved(file)["profiles"][0]["unlisted"] == "disabled"


def test_a_switch_of_the_active_profile_is_the_one_that_is_meant(file: RegistryFile) -> None:
    file.path.write_text(json.dumps({"activeProfile": "mine", "profiles": [profile("mine"), profile("other")]}))
    profiles = file.edit(Switch(target="shell", enabled=False))
    tool = CATALOG.categories["shell"][0]
    assert [each.id for each in (profiles["mine"], profiles["other"]) if each.allows(tool)] == ["other"]


def test_the_active_profile_is_chosen(file: RegistryFile) -> None:
    assert file.edit(UseProfile(profile="read-only")).active == "read-only"
    assert _saved(file)["activeProfile"] == "read-only"


@pytest.mark.parametrize(
    "edit", [Switch(target="teleport", enabled=True), UseProfile(profile="nobody")], ids=["switch", "profile"]
)
def test_what_is_not_known_is_not_switched(file: RegistryFile, edit: Edit) -> None:
    file.path.write_text("{ }")
    with pytest.raises(UnknownName):
        file.edit(edit)
    assert file.path.read_text() == "{ }"


def test_a_broken_file_is_never_written_over(file: RegistryFile) -> None:
    file.path.write_text('{"profiles": 5')
    with pytest.raises(BadRegistry):
        file.edit(Switch(target="fs_read", enabled=False))
    assert file.path.read_text() == '{"profiles": 5'


def test_a_change_that_would_break_the_file_is_not_saved(file: RegistryFile) -> None:
    file.path.write_text("{}")
    with pytest.raises(BadRegistry, match="/activeProfile"):
        file.edit(_UseNobody())
    assert file.path.read_text() == "{}"


@pytest.mark.parametrize(
    "value", ["2", "1.5", '"é \\u0000 \\ud83d\\ude00"', "12345678901234567890123456789", "[[], {}]", "null"]
)
def test_a_save_keeps_what_it_does_not_know(file: RegistryFile, value: str) -> None:
    file.path.write_text(f'{{"mine": {value}}}')
    file.edit(Switch(target="fs_read", enabled=False))
    assert json.loads(file.path.read_text())["mine"] == json.loads(value)


def test_a_save_keeps_the_mode(file: RegistryFile) -> None:
    file.path.write_text("{}")
    file.path.chmod(0o640)
    file.edit(Switch(target="fs_read", enabled=False))
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o640


def test_a_save_by_another_user_leaves_the_file_to_its_owner(file: RegistryFile) -> None:
    """As `sudo mcp-agent disable` does, after which the owner could not change it any more."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    file.load_or_create()
    os.chown(file.path, 65_534, 65_533)
    file.edit(Switch(target="fs_read", enabled=False))
    status = file.path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (65_534, 65_533, 0o600)


def test_a_save_keeps_a_link_and_writes_what_it_leads_to(tmp_path: Path, file: RegistryFile) -> None:
    (tmp_path / "dotfiles").mkdir()
    real = tmp_path / "dotfiles" / "real.json"
    real.write_text("{}")
    file.path.symlink_to("dotfiles/real.json")
    file.edit(Switch(target="fs_read", enabled=False))
    assert file.path.readlink() == Path("dotfiles/real.json")
    assert json.loads(real.read_text())["profiles"][0]["id"] == "default"
    assert [each.name for each in real.parent.iterdir()] == ["real.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe{}", "no UTF-8: byte 0 fits no character"),
        (b" " * (4 * 1024 * 1024 + 1), "{path} is larger than 4,194,304 bytes"),
    ],
)
def test_bytes_that_are_no_registry_are_told_why(file: RegistryFile, content: bytes, message: str) -> None:
    file.path.write_bytes(content)
    with pytest.raises(BadRegistry) as refused:
        file.load()
    assert [str(problem) for problem in refused.value.problems] == [f"/: {message.format(path=file.path)}"]


def test_a_mark_of_utf_8_in_front_is_read_over(file: RegistryFile) -> None:
    file.path.write_bytes(b"\xef\xbb\xbf{}")
    assert file.load().active == "default"


def test_what_is_no_file_is_told_and_never_waited_for(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "round").symlink_to("round")
    told = {}
    for name in ("folder", "fifo", "dangling", "round", "x" * 300):
        with pytest.raises(BadRegistry) as refused:
            RegistryFile(tmp_path / name, CATALOG).load_or_create()
        told[name[:10]] = refused.value.problems[0].message.removeprefix(str(tmp_path / name))
    assert told == {
        "folder": " is no regular file",
        "fifo": " is no regular file",
        "dangling": " is a link to a file that is not there",
        "round": " is a link to a file that is not there",
        "xxxxxxxxxx": " cannot be made: file name too long",
    }


def test_a_place_where_nothing_can_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadRegistry, match=r"tools\.json cannot be made: (not a directory|file exists)$"):
        RegistryFile(tmp_path / "file" / "tools.json", CATALOG).load_or_create()


def test_a_file_of_another_user_cannot_be_read_and_a_folder_of_another_not_written(tmp_path: Path) -> None:
    file = RegistryFile(Path("tools.json"), CATALOG)
    (tmp_path / "tools.json").write_text("{}")
    (tmp_path / "tools.json").chmod(0)
    with as_nobody(tmp_path), pytest.raises(BadRegistry, match=r"tools\.json cannot be read: permission denied$"):
        file.load()
    (tmp_path / "tools.json").chmod(0o644)
    with as_nobody(tmp_path, mode=0o555), pytest.raises(BadRegistry, match=r"cannot be written: permission denied$"):
        file.edit(Switch(target="fs_read", enabled=False))
    assert (tmp_path / "tools.json").read_text() == "{}"


def test_edits_of_several_processes_are_all_kept(file: RegistryFile) -> None:
    writers = [_child(_ADDS_TEN, str(file.path), str(number)) for number in range(4)]
    assert [writer.wait(PATIENCE_S) for writer in writers] == [0, 0, 0, 0]
    for writer in writers:
        writer.communicate()
    assert sorted(_saved(file)["kept"]) == sorted(f"{number}-{turn}" for number in range(4) for turn in range(10))


def test_a_kill_in_the_middle_of_saves_leaves_a_good_file(file: RegistryFile) -> None:
    file.path.write_text(
        json.dumps({"profiles": [profile("default", switched(fs_read=True))], "padding": "x" * 500_000})
    )
    dice = random.Random(1)
    for _ in range(_KILLS):
        writer = _child(_SWITCHES_FOR_EVER, str(file.path))
        assert writer.stdout is not None
        for _ in range(dice.randrange(1, 4)):
            assert writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        writer.wait(PATIENCE_S)
        writer.stdout.close()
        file.load()
        assert len(_saved(file)["padding"]) == 500_000
    file.edit(Switch(target="fs_read", enabled=False))
    assert [each.name for each in file.path.parent.iterdir()] == ["tools.json"]


def test_a_file_that_became_a_link_to_itself_is_a_problem_of_the_file(file: RegistryFile) -> None:
    file.load_or_create()
    file.path.unlink()
    file.path.symlink_to(file.path.name)
    with pytest.raises(BadRegistry, match=r"tools\.json cannot be written: too many levels of symbolic links"):
        file.edit(Switch(target="fs_read", enabled=False))
    assert file.path.is_symlink()
