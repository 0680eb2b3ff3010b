"""What the record says of a change of tools.json."""

from __future__ import annotations

from typing import Any

import pytest

from registry.policy_diff import differences
from registry.profiles import Profiles
from registry.tools_json import read
from tests.support.small_catalog import CATALOG, profile, switched


def _read(*profiles: dict[str, Any], **keys: Any) -> Profiles:
    return read({"profiles": list(profiles), **keys}, CATALOG)


def _rule(**changes: Any) -> dict[str, Any]:
    return {"paths": [{"id": "env", "pattern": ".env", "reason": "secrets", **changes}]}


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
        (_read(), _read(profile("default")), []),
    ],
)
def test_every_change_is_told_in_words(before: Profiles, after: Profiles, changes: list[str]) -> None:
    assert differences(before, after, CATALOG) == changes


def test_a_change_of_everything_stays_short() -> None:
    many = [profile(f"profile-{number}") for number in range(100)]
    found = differences(_read(), _read(*many), CATALOG)
    assert (len(found), found[-1]) == (51, "and 450 more")
