"""What asks: switches, effects and rules of tools.json, and what of it is a problem of the file."""

from __future__ import annotations

from typing import Any

import pytest

from registry.catalog import discover
from registry.edits import BadArguments, edit_named
from registry.gate import Access, Gate
from registry.profiles import BadRegistry, Profiles, differences, policy_change
from registry.tools_json import read

_CATALOG = discover()


def _profiles(**profile: Any) -> Profiles:
    return read({"profiles": [{"id": "default", **profile}]}, _CATALOG)


def _asks(profiles: Profiles, tool: str, command: str | None = None, narrowed_to: str | None = None) -> list[str]:
    """The rules that ask about a call, of every profile that applies."""
    found, grant = Gate(_CATALOG, profiles).admit(Access(None, narrowed_to), tool)
    reasons = [each.reason(found.name, command, is_plain=found.typed is None) for each in grant.asks or ()]
    return [each.rule for each in reasons if each is not None]


def test_nothing_asks_in_the_shipped_profiles_but_careful() -> None:
    profiles = read({}, _CATALOG)
    asking = {each.id for each in profiles.by_id.values() for tool in _CATALOG.tools if each.asking(tool) is not None}
    assert asking == {"careful"}


def test_careful_asks_for_execution_and_not_for_what_only_looks() -> None:
    profiles = read({"activeProfile": "careful"}, _CATALOG)
    assert _asks(profiles, "shell_exec", "rm x") == ["effect:execute"]
    assert _asks(profiles, "bash", "make") == ["effect:execute"]
    assert _asks(profiles, "shell_exec", "git status | head") == []
    assert _asks(profiles, "shell_send_input", "ls\n") == ["effect:execute"]
    assert _asks(profiles, "shell_send_input", "") == []
    assert _asks(profiles, "shell_stop_session") == []
    assert _asks(profiles, "fs_write") == []
    assert _asks(profiles, "fs_read") == []


def test_a_tool_a_category_or_an_effect_asks_and_a_tools_own_word_counts_first() -> None:
    profiles = _profiles(
        effects={"execute": "ask"},
        categories=[
            {"id": "filesystem", "ask": True, "tools": [{"id": "fs_read", "ask": False}]},
            {"id": "shell", "tools": [{"id": "shell_stop_session", "ask": False}, {"id": "shell_exec", "ask": True}]},
        ],
    )
    assert _asks(profiles, "fs_list") == ["category:filesystem"]
    assert _asks(profiles, "fs_read") == []
    assert _asks(profiles, "shell_exec", "x") == ["tool:shell_exec"]
    assert _asks(profiles, "bash", "x") == ["effect:execute"]
    assert _asks(profiles, "shell_stop_session") == []


def test_a_rule_asks_where_no_switch_does_and_its_exceptions_are_for_whole_commands() -> None:
    rule = {"id": "push", "pattern": "git push", "reason": "others see it", "except": "git push --dry-run( \\w+)*"}
    profiles = _profiles(ask={"commands": [rule]})
    assert _asks(profiles, "shell_exec", "git push origin") == ["push"]
    assert _asks(profiles, "shell_exec", "git 'push' origin") == ["push"]
    assert _asks(profiles, "shell_exec", "git push --dry-run origin") == []
    assert _asks(profiles, "shell_exec", "git push --dry-run origin; git push") == ["push"]
    assert _asks(profiles, "shell_exec", "git push --dry-run origin\ngit push") == ["push"]
    assert _asks(profiles, "shell_exec", "ls") == []
    assert _asks(profiles, "shell_send_input", "git push\n") == ["push"]


def test_the_list_and_the_exceptions_overrule_a_switch_and_no_rule() -> None:
    profiles = _profiles(
        effects={"execute": "ask"},
        ask={
            "commands": [{"id": "log", "pattern": "git log", "reason": "slow"}],
            "unasked": ["git log", "make test"],
            "except": "npm run (lint|build)",
        },
    )
    assert _asks(profiles, "shell_exec", "make test") == []
    assert _asks(profiles, "shell_exec", "make test all") == ["effect:execute"]
    assert _asks(profiles, "shell_exec", "npm run lint") == []
    assert _asks(profiles, "shell_exec", "npm run lint; x") == ["effect:execute"]
    assert _asks(profiles, "shell_exec", "git log") == ["log"]


def test_of_two_profiles_the_stricter_counts() -> None:
    profiles = _profiles(categories=[{"id": "filesystem", "ask": True}])
    assert _asks(profiles, "fs_write", narrowed_to="careful") == ["category:filesystem"]
    assert _asks(profiles, "shell_exec", "make", narrowed_to="careful") == ["effect:execute"]
    assert _asks(read({"activeProfile": "careful"}, _CATALOG), "shell_exec", "make", "lean") == ["effect:execute"]


def test_a_tool_that_is_off_does_not_ask() -> None:
    profiles = _profiles(effects={"execute": False}, categories=[{"id": "shell", "ask": True}])
    assert not Gate(_CATALOG, profiles).allows(Access(), "shell_exec")


@pytest.mark.parametrize(
    ("profile", "pointer"),
    [
        ({"effects": {"execute": "asks"}}, "/profiles/0/effects/execute"),
        ({"effects": {"execute": "on"}}, "/profiles/0/effects/execute"),
        ({"effects": {"execute": None}}, "/profiles/0/effects/execute"),
        ({"categories": [{"id": "shell", "ask": "yes"}]}, "/profiles/0/categories/0/ask"),
        ({"categories": [{"id": "shell", "aks": True}]}, "/profiles/0/categories/0/aks"),
        (
            {"categories": [{"id": "shell", "tools": [{"id": "shell_exec", "ask": 1}]}]},
            "/profiles/0/categories/0/tools/0/ask",
        ),
        ({"ask": True}, "/profiles/0/ask"),
        ({"ask": {"command": []}}, "/profiles/0/ask/command"),
        ({"ask": {"alone": "no"}}, "/profiles/0/ask/alone"),
        ({"ask": {"except": ["("]}}, "/profiles/0/ask/except/0"),
        ({"ask": {"unasked": ["ls > x"]}}, "/profiles/0/ask/unasked/0"),
        ({"ask": {"commands": [{"id": "a", "pattern": "(", "reason": "r"}]}}, "/profiles/0/ask/commands/0/pattern"),
        (
            {"ask": {"commands": [{"id": "a", "pattern": "x", "reason": "r", "match": "y"}]}},
            "/profiles/0/ask/commands/0/match/0",
        ),
        (
            {"ask": {"commands": [{"id": "a", "pattern": "x", "reason": "r", "except": "xy", "match": "xy"}]}},
            "/profiles/0/ask/commands/0/match/0",
        ),
    ],
)
def test_a_word_that_could_leave_something_on_is_a_problem_of_the_file(profile: dict[str, Any], pointer: str) -> None:
    with pytest.raises(BadRegistry) as error:
        _profiles(**profile)
    assert pointer in [each.pointer for each in error.value.problems if not each.is_warning]


def test_a_key_of_the_owners_own_that_is_nearly_ask_is_left_alone() -> None:
    assert _profiles(categories=[{"id": "shell", "any": 1}]).warnings == ()


def _changed(document: dict[str, Any], name: str, **arguments: Any) -> dict[str, Any]:
    edit_named(name, arguments).apply(document, read(document, _CATALOG), _CATALOG)
    return document


def test_the_switch_has_three_positions() -> None:
    document: dict[str, Any] = {"profiles": [{"id": "default"}]}
    _changed(document, "switch", target="shell", enabled=True, ask=True)
    assert document["profiles"][0]["categories"] == [{"id": "shell", "enabled": True, "ask": True}]
    _changed(document, "switch", target="shell", enabled=False)
    assert document["profiles"][0]["categories"] == [{"id": "shell", "enabled": False, "ask": True}]
    _changed(document, "switch", target="shell", enabled=True, ask=False)
    assert document["profiles"][0]["categories"] == [{"id": "shell", "enabled": True}]
    _changed(document, "switch", effects=["execute"], enabled=True, ask=True)
    _changed(document, "switch", target="bash", enabled=True, ask="never")
    assert document["profiles"][0]["effects"] == {"execute": "ask"}
    assert _asks(read(document, _CATALOG), "bash", "x") == []
    _changed(document, "switch", effects=["execute"], enabled=True)
    assert document["profiles"][0]["effects"] == {"execute": "ask"}
    _changed(document, "switch", effects=["execute"], enabled=True, ask=False)
    assert document["profiles"][0]["effects"] == {"execute": True}


def test_an_exception_is_added_where_the_question_came_from() -> None:
    from registry.edits import AddException

    rules = [
        {"id": "a", "pattern": "x", "reason": "r", "except": "x 1"},
        {"id": "b", "pattern": "y", "reason": "r", "always": False},
    ]
    document: dict[str, Any] = {"profiles": [{"id": "default", "ask": {"commands": rules}}]}
    profiles = read(document, _CATALOG)
    for edit in (
        AddException(profile="default", tool="bash", rule="a", pattern="x 2"),
        AddException(profile="default", tool="bash", pattern="make"),
        AddException(profile="default", tool="fs_write"),
    ):
        edit.apply(document, profiles, _CATALOG)
    profile = document["profiles"][0]
    assert profile["ask"]["commands"][0]["except"] == ["x 1", "x 2"]
    assert profile["ask"]["except"] == ["make"]
    assert profile["categories"] == [
        {"id": "filesystem", "enabled": True, "tools": [{"id": "fs_write", "enabled": True, "ask": False}]}
    ]
    with pytest.raises(BadArguments, match="takes no exceptions"):
        AddException(profile="default", tool="bash", rule="b", pattern="y").apply(document, profiles, _CATALOG)


def test_a_profile_that_asks_is_written_out_as_it_is() -> None:
    document: dict[str, Any] = {}
    _changed(document, "profiles/create", **{"from": "careful", "label": "mine"})
    profiles = read(document, _CATALOG)
    mine, careful = profiles["mine"], profiles["careful"]
    assert (mine.ask, mine.effects) == (careful.ask, careful.effects)
    assert [mine.asking_switch(tool) for tool in _CATALOG.tools] == [
        careful.asking_switch(tool) for tool in _CATALOG.tools
    ]


def test_to_ask_less_widens_a_policy_and_to_ask_more_does_not() -> None:
    free, asking = _profiles(), _profiles(categories=[{"id": "shell", "ask": True}])
    off = _profiles(categories=[{"id": "shell", "enabled": False}])
    assert differences(free, asking, _CATALOG) == ["default: shell ask"]
    assert policy_change(free, asking, _CATALOG)["widened"] == []
    assert policy_change(asking, free, _CATALOG)["widened"] == ["default: shell on"]
    assert policy_change(off, asking, _CATALOG)["widened"] == ["default: shell ask"]
    rule = {"id": "a", "pattern": "x", "reason": "r"}
    one, other = _profiles(ask={"commands": [rule]}), _profiles(ask={"commands": [{**rule, "except": "xy"}]})
    assert policy_change(one, other, _CATALOG)["widened"] == ["default: ask rule a changed"]
    assert policy_change(one, free, _CATALOG)["widened"] == ["default: ask rule a removed"]
    assert policy_change(free, one, _CATALOG)["widened"] == []
