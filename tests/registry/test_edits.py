"""Changes of whole profiles: what they do to the file, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from registry.catalog import discover
from registry.edits import BadArguments, edit_named
from registry.profiles import BadRegistry, Profiles, UnknownName
from registry.tools_json_file import RegistryFile
from registry.user_error import UserError

_CATALOG = discover()


@pytest.fixture
def file(tmp_path: Path) -> RegistryFile:
    registry = RegistryFile(tmp_path / "tools.json", _CATALOG)
    registry.load_or_create()
    return registry


def _make(file: RegistryFile, name: str, **arguments: Any) -> Profiles:
    return file.edit(edit_named(name, arguments), _CATALOG)


def _entry(file: RegistryFile, profile_id: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        each for each in json.loads(file.path.read_text())["profiles"] if each["id"] == profile_id
    )
    return found


def test_a_copy_has_an_id_of_its_own_and_every_switch_of_the_first(file: RegistryFile) -> None:
    _make(file, "switch", profile="default", target="fs_read", enabled=False)
    _make(file, "profiles/create", **{"from": "default"}, label="Night Shift")
    profiles = _make(file, "profiles/create", **{"from": "default"}, label="Night  shift")
    assert [each for each in profiles.by_id if each.startswith("night")] == ["night-shift", "night-shift-2"]
    tools = _CATALOG.by_name
    assert not profiles["night-shift"].allows(tools["fs_read"])
    assert profiles["night-shift"].allows(tools["fs_list"])


def test_a_copy_of_a_built_in_profile_keeps_its_rule(file: RegistryFile) -> None:
    profiles = _make(file, "profiles/create", **{"from": "read-only"}, label="Readers")
    assert {tool.effect for tool in _CATALOG.tools if profiles["readers"].allows(tool)} == {"read"}


@pytest.mark.parametrize("label", ["", "   ", "x" * 81, "a\x1b[31mb"])
def test_a_label_is_one_line_of_some_length(file: RegistryFile, label: str) -> None:
    with pytest.raises(BadArguments, match="a label is a line of 1 to 80 characters"):
        _make(file, "profiles/update", profile="default", label=label)


def test_the_active_profile_and_an_unchanged_built_in_one_cannot_be_deleted(file: RegistryFile) -> None:
    with pytest.raises(UserError, match="make another one active first"):
        _make(file, "profiles/delete", profile="default")
    with pytest.raises(UserError, match="lean is built in"):
        _make(file, "profiles/delete", profile="lean")
    with pytest.raises(UnknownName, match="there is no profile 'nobody'"):
        _make(file, "profiles/delete", profile="nobody")


def test_a_built_in_profile_that_is_deleted_is_as_it_was_shipped(file: RegistryFile) -> None:
    _make(file, "profiles/use", profile="lean")
    _make(file, "switch", profile="default", target="shell", enabled=False)
    profiles = _make(file, "profiles/delete", profile="default")
    assert all(profiles["default"].allows(tool) for tool in _CATALOG.tools)


def test_a_preset_sets_every_switch_and_leaves_rules_mounts_and_unknown_keys(file: RegistryFile) -> None:
    mount = {"command": "browser-server"}
    document = {
        "profiles": [
            {
                "id": "default",
                "enabled": False,
                "unlisted": "disabled",
                "effects": {"execute": False},
                "categories": [
                    {"id": "filesystem", "enabled": False, "tools": [{"id": "fs_read", "enabled": False, "x-note": 1}]},
                    {"id": "browser", "enabled": False, "mount": mount},
                ],
                "deny": {"paths": [{"id": "env", "pattern": ".env", "reason": "secrets"}]},
            }
        ],
        "activeProfile": "lean",
    }
    file.path.write_text(json.dumps(document))
    file.load()
    profiles = _make(file, "profiles/preset", preset="full-access")
    assert profiles.active == "default"
    assert all(profiles["default"].allows(tool) for tool in _CATALOG.tools)
    entry = _entry(file, "default")
    assert entry["deny"] == document["profiles"][0]["deny"]  # type: ignore[index]  # it is the document above
    browser = next(each for each in entry["categories"] if each["id"] == "browser")
    assert browser == {"id": "browser", "enabled": True, "mount": mount}
    listed = next(each for each in entry["categories"] if each["id"] == "filesystem")["tools"]
    assert listed[0] == {"id": "fs_read", "enabled": True, "x-note": 1}
    profiles = _make(file, "profiles/preset", preset="browser-only")
    assert not any(profiles["browser-only"].allows(tool) for tool in _CATALOG.tools)
    with pytest.raises(BadArguments, match="there is no preset 'none'"):
        _make(file, "profiles/preset", preset="none")


def test_a_rule_that_cannot_be_used_is_not_saved(file: RegistryFile) -> None:
    before = file.path.read_text()
    rule = {"profile": "default", "kind": "commands", "id": "broken", "reason": "why"}
    with pytest.raises(BadRegistry, match="not a regular expression"):
        _make(file, "rules/add", **rule, pattern="(")
    with pytest.raises(BadArguments, match="one pattern a line"):
        _make(file, "rules/add", **rule, pattern=" \n ")
    with pytest.raises(BadArguments, match="Invalid enum value 'files'"):
        _make(file, "rules/add", **{**rule, "kind": "files"}, pattern="x")
    with pytest.raises(UnknownName, match="there is no rule 'broken'"):
        _make(file, "rules/remove", profile="default", kind="paths", id="broken")
    assert file.path.read_text() == before
