"""A key of tools.json that was meant for us and is misspelt, or at the wrong level."""

from __future__ import annotations

from typing import Any

import pytest

from registry.profiles import BadRegistry
from registry.schema import Report
from registry.tools_json import FILE, LEVELS, read
from tests.support.small_catalog import CATALOG, profile, switched

# A level of the file by a key that is in it.
_BY_PLACE = {level.place.rpartition(" ")[2]: level for level in (FILE, *LEVELS.values())}


def _told(level: str, *keys: str) -> list[str]:
    report = Report(levels=LEVELS)
    _BY_PLACE[level].check_keys(keys, "", report)
    return [f"{'warning' if each.is_warning else 'problem'} {each}" for each in report.found]


@pytest.mark.parametrize(
    ("level", "key", "told"),
    [
        ("profile", "enable", "problem /enable: there is no key enable here (did you mean enabled?)"),
        ("profile", "category", "problem /category: there is no key category here (did you mean categories?)"),
        ("category", "tool", "problem /tool: there is no key tool here (did you mean tools?)"),
        ("profile", "tool", "problem /tool: there is no key tool (did you mean tools, in a category?)"),
        (
            "file",
            "activeProfil",
            "problem /activeProfil: there is no key activeProfil here (did you mean activeProfile?)",
        ),
        ("file", "active", "problem /active: there is no key active here (did you mean activeProfile?)"),
        ("profile", "denied", "problem /denied: there is no key denied here (did you mean deny?)"),
        ("file", "deny", "problem /deny: deny has no effect here: it belongs in a profile"),
        ("file", "enabled", "problem /enabled: enabled has no effect here: it belongs in a profile"),
        ("tool", "Enabled", "problem /Enabled: there is no key Enabled here (did you mean enabled?)"),
        ("tool", "disabled", 'problem /disabled: there is no key disabled (write "enabled": false)'),
        ("tool", "enalbde", "problem /enalbde: there is no key enalbde here (did you mean enabled?)"),
        ("profile", "effect", "problem /effect: there is no key effect here (did you mean effects?)"),
        ("profile", "execute", "problem /execute: execute has no effect here: it belongs in effects"),
        ("profile", "paths", "problem /paths: paths has no effect here: it belongs in deny"),
        ("rule", "patern", "problem /patern: there is no key patern here (did you mean pattern?)"),
        ("pruning", "rot", "problem /rot: there is no key rot here (did you mean root?)"),
        ("profile", "lable", "warning /lable: there is no key lable here (did you mean label?)"),
        ("response", "from", "warning /from: there is no key from here (did you mean form?)"),
        ("profile", "respons", "warning /respons: there is no key respons here (did you mean response?)"),
        ("file", "label", "warning /label: label has no effect here: it belongs in a profile"),
    ],
)
def test_a_misspelt_key_is_a_problem_where_something_could_stay_on(level: str, key: str, told: str) -> None:
    assert _told(level, key) == [told]


@pytest.mark.parametrize("level", ["file", "profile", "category", "tool", "rule", "deny", "response"])
def test_a_key_of_the_owner_is_left_alone(level: str) -> None:
    own = ("comment", "_comment", "$schema", "x-team", "color", "owner", "since", "notes", "env", "x", "")
    assert _told(level, *own) == []


def test_the_keys_that_we_write_ourselves_are_known() -> None:
    from registry.profiles import default_document

    read(default_document(CATALOG), CATALOG)
    assert read(default_document(CATALOG), CATALOG).warnings == ()


def _problems(document: dict[str, Any]) -> list[str]:
    with pytest.raises(BadRegistry) as refused:
        read(document, CATALOG)
    return [f"{'warning' if each.is_warning else 'problem'} {each.pointer}" for each in refused.value.problems]


def test_every_level_of_the_file_is_looked_at() -> None:
    tool = {**switched(fs_read=True)["tools"][0], "enable": False}
    rule = {"id": "env", "pattern": ".env", "reason": "x", "nomatch": "y"}
    document = {
        "denied": {},
        "profiles": [
            profile(
                "default",
                {"id": "filesystem", "tool": [], "tools": [tool]},
                unlist="disabled",
                response={"from": "text"},
                pruning={"everywher": True},
                effects={"exec": False, "write": 0},
                deny={"path": [], "paths": [rule]},
            )
        ],
    }
    assert sorted(_problems(document)) == [
        "problem /denied",
        "problem /profiles/0/categories/0/tool",
        "problem /profiles/0/categories/0/tools/0/enable",
        "problem /profiles/0/deny/path",
        "problem /profiles/0/deny/paths/0/nomatch",
        "problem /profiles/0/effects/exec",
        "problem /profiles/0/effects/write",
        "problem /profiles/0/unlist",
        "warning /profiles/0/pruning/everywher",
        "warning /profiles/0/response/from",
    ]
