"""`deny` in tools.json: what it means, whom it binds, and every way in which it can be wrong."""

from __future__ import annotations

from typing import Any

import pytest

from registry.gate import Access, Gate
from registry.profiles import BadRegistry, Profiles
from registry.tools_json import read
from tests.support.small_catalog import CATALOG, profile
from tools.kit.rules import NOTHING


def _read(*profiles: dict[str, Any]) -> Profiles:
    return read({"profiles": list(profiles)}, CATALOG, "/etc/tools.json")


def _path(pattern: Any = ".env", rule_id: str = "env", **keys: Any) -> dict[str, Any]:
    return {"id": rule_id, "pattern": pattern, "reason": "secrets", **keys}


def _problems(deny: Any) -> list[str]:
    with pytest.raises(BadRegistry) as refused:
        _read(profile("default", deny=deny))
    return [str(problem).removeprefix("/profiles/0/deny") for problem in refused.value.problems]


def test_examples_that_hold_are_accepted() -> None:
    _read(
        profile(
            "default",
            deny={
                "paths": [
                    _path([".env*", "!.env.example"], match=["app/.env", ".env.local"], not_match="app/.env.example"),
                    _path("~/.ssh", "ssh", match="~/.ssh/id_rsa", not_match=["/srv/.ssh"]),
                ],
                "commands": [_path("git push.*--force", "force", match='git pu"sh" --force', not_match=["git push"])],
            },
        )
    )


def test_every_problem_is_told_at_its_place() -> None:
    assert _problems(
        {
            "paths": [
                _path(match=["a/.env", "a/env"], not_match="a/.env"),
                {"id": "", "pattern": 5},
                _path(),
                "x",
                _path("~nobody-of-that-name/x", "home"),
                _path("!.env", "nothing"),
                _path("x\\", "odd"),
                _path(rule_id="misspelt", nomatch=["x"]),
                _path(rule_id="number", match=[7]),
                _path("", "empty"),
                _path([".a", ""], "empty-too"),
            ],
            "commands": [_path("(", "open"), _path("x", "env"), _path("(a|aa)+$", "slow", not_match="a" * 60 + "b")],
            "command": [],
        }
    ) == [
        "/command: there is no key command here (did you mean commands?)",
        "/paths/1/reason: a rule needs a reason",
        '/paths/1/id: must be a string that is not empty, not ""',
        "/paths/1/pattern: must be a string, or an array of strings, not 5",
        "/paths/2/id: a rule with the id 'env' stands above already",
        '/paths/3: a rule must be an object, not "x"',
        "/paths/7/nomatch: there is no key nomatch here (did you mean not_match?)",
        "/paths/8/match: must be a string, or an array of strings, not [7]",
        "/paths/9/pattern: an empty pattern matches nothing",
        "/paths/10/pattern: an empty pattern matches nothing",
        "/paths/0/match/1: 'a/env' does not match and should",
        "/paths/0/not_match/0: 'a/.env' matches and should not",
        "/paths/4/pattern: the glob '~nobody-of-that-name/x' begins with an unknown user",
        "/paths/5/pattern: it has only exceptions, which begin with !",
        "/paths/6/pattern: the glob 'x\\\\' ends in a backslash, which quotes nothing",
        "/commands/0/pattern: not a regular expression: missing ) at position 1",
        "/commands/1/id: the profile has a rule 'env' for paths, too",
        "/commands/2/not_match/0: the deny rule slow took longer than 100 ms over this command, so it is refused",
    ]


@pytest.mark.parametrize(
    ("deny", "problem"),
    [
        ([], ": deny must be an object, not []"),
        ({"paths": {}}, "/paths: must be an array, not {}"),
        ({"commands": "rm"}, '/commands: must be an array, not "rm"'),
    ],
)
def test_a_deny_of_another_shape_is_a_problem(deny: Any, problem: str) -> None:
    assert _problems(deny) == [problem]


def test_a_key_that_is_like_none_of_ours_is_left_alone() -> None:
    _read(profile("default", deny={"x-note": "of the owner", "paths": [_path(owner="me")]}))


def test_the_rules_of_both_profiles_bind_a_caller_who_narrows_itself() -> None:
    gate = Gate(
        CATALOG,
        _read(
            profile("own", deny={"paths": [_path()], "commands": [_path("x", "x")]}),
            profile("narrowed", deny={"paths": [_path("*.pem", "pem")]}),
            profile("free"),
        ),
    )
    both = gate.admit(Access("own", "narrowed"), "fs_read")[1].deny
    assert both.paths is not None
    assert both.commands is not None
    assert [rule.id for rule in (*both.paths.rules, *both.commands.rules)] == ["env", "pem", "x"]
    assert both.paths.rules[1].where == "/etc/tools.json, profile narrowed, at /profiles/1/deny/paths/0"
    assert gate.admit(Access("free", "narrowed"), "fs_read")[1].deny == gate.deny(Access("narrowed"))
    assert gate.deny(Access("free")) == NOTHING


def test_rules_are_as_live_as_switches() -> None:
    before, after = _read(profile("default", deny={"paths": [_path()]})), _read(profile("default"))
    assert before != after
    assert before == _read(profile("default", deny={"paths": [_path()]}))
    gate = Gate(CATALOG, before)
    grant = gate.admit(Access(), "fs_read")[1]
    gate.swap(after)
    assert grant.deny.paths is not None
    assert gate.admit(Access(), "fs_read")[1].deny == NOTHING
