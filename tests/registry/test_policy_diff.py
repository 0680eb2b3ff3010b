"""What the record says of a change of tools.json."""

from __future__ import annotations

from typing import Any

import pytest

from registry.profiles import Profiles, differences, policy_change
from registry.tools_json import read
from tests.support.small_catalog import CATALOG, profile, switched


def _read(*profiles: dict[str, Any], **keys: Any) -> Profiles:
    return read({"profiles": list(profiles), **keys}, CATALOG)


def _rule(**changes: Any) -> dict[str, Any]:
    return {"paths": [{"id": "env", "pattern": ".env", "reason": "secrets", **changes}]}


_GIT = {"id": "git_run", "command": "git"}
_MOUNT = {"url": "http://127.0.0.1:1/mcp"}


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (_read(), _read(profile("default", switched("shell", enabled=False))), ["default: shell off"]),
        (_read(), _read(profile("default", switched(fs_read=False))), ["default: fs_read off"]),
        (_read(profile("default", switched(fs_read=False))), _read(), ["default: fs_read on"]),
        (_read(), _read(activeProfile="lean"), ["active profile: default → lean"]),
        (
            _read(),
            _read(profile("mine", switched("shell", shell_exec=True), unlisted="disabled")),
            ["mine: new profile", "mine: shell on"],
        ),
        (_read(profile("mine")), _read(), ["mine: profile removed"]),
        (_read(), _read(profile("default", deny=_rule())), ["default: deny rule env added"]),
        (
            _read(profile("default", deny=_rule())),
            _read(profile("default", deny=_rule(pattern="*.pem"))),
            ["default: deny rule env changed"],
        ),
        (_read(profile("default", deny=_rule())), _read(), ["default: deny rule env removed"]),
        (_read(), _read(profile("default", response={"form": "text"})), ["default: response changed"]),
        (_read(), _read(profile("default", pruning={"everywhere": False})), ["default: pruning changed"]),
        (
            _read(),
            _read(profile("default", effects={"execute": False})),
            ["default: effect execute off", "default: shell off", "default: browser off"],
        ),
        (_read(), _read(profile("default")), []),
    ],
)
def test_every_change_is_told_in_words(before: Profiles, after: Profiles, changes: list[str]) -> None:
    assert differences(before, after, CATALOG) == changes


def test_a_change_of_everything_stays_short() -> None:
    many = [profile(f"profile-{number}") for number in range(100)]
    found = differences(_read(), _read(*many), CATALOG)
    assert (len(found), found[-1]) == (51, "and 450 more")


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (_read(profile("default", switched("shell", enabled=False))), _read(), ["default: shell on"]),
        (_read(), _read(profile("default", switched("shell", enabled=False))), []),
        (_read(activeProfile="lean"), _read(), ["active profile: lean → default"]),
        (_read(), _read(activeProfile="lean"), []),
        (_read(profile("default", deny=_rule())), _read(), ["default: deny rule env removed"]),
        (_read(), _read(profile("default", deny=_rule())), []),
        (
            _read(profile("default", deny=_rule())),
            _read(profile("default", deny=_rule(pattern="*.pem"))),
            ["default: deny rule env changed"],
        ),
        (_read(), _read(profile("default", {"id": "cli", "wrap": [_GIT]})), ["wrapped program git_run added"]),
        (_read(profile("default", {"id": "cli", "wrap": [_GIT]})), _read(), []),
        (_read(), _read(profile("default", {"id": "web", "mount": _MOUNT})), ["mounted server web added"]),
        (
            _read(profile("default", {"id": "web", "mount": _MOUNT})),
            _read(profile("default", {"id": "web", "mount": {"url": "http://127.0.0.1:2/mcp"}})),
            ["mounted server web changed"],
        ),
        (_read(profile("default", pruning={"root": "/srv"})), _read(), ["default: pruning changed"]),
        (
            _read(profile("default", pruning={"root": "/srv"})),
            _read(profile("default", pruning={"root": "/srv/a"})),
            [],
        ),
        (_read(), _read(profile("mine")), []),
        (_read(profile("mine", enabled=False)), _read(profile("mine", unlisted="disabled")), []),
    ],
)
def test_what_lets_a_caller_do_more_is_known(before: Profiles, after: Profiles, changes: list[str]) -> None:
    assert policy_change(before, after, CATALOG)["widened"] == changes
