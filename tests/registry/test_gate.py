"""Who may use which tool."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.gate import Access, Gate, Grant, UnknownTool
from registry.profiles import SHIPPED
from registry.tools_json import read
from tests.support.small_catalog import ALL, CATALOG, profile, switched
from tools.kit.errors import ToolDisabled

_CATEGORIES = st.lists(
    st.builds(
        lambda category, enabled, tools: switched(
            category,
            enabled=enabled,
            **{tool.name: on for tool, on in zip(CATALOG.categories[category], tools, strict=False)},
        ),
        st.sampled_from(list(CATALOG.categories)),
        st.booleans(),
        st.lists(st.booleans(), max_size=3),
    ),
    unique_by=lambda category: str(category["id"]),
)
_PROFILES = st.builds(
    lambda categories, unlisted, enabled: profile("x", *categories, unlisted=unlisted, enabled=enabled),
    _CATEGORIES,
    st.sampled_from(["enabled", "disabled"]),
    st.booleans(),
)


def _gate(*profiles: dict[str, Any], active: str = "default") -> Gate:
    return Gate(CATALOG, read({"activeProfile": active, "profiles": list(profiles)}, CATALOG))


def _visible(gate: Gate, access: Access) -> tuple[str, ...]:
    return tuple(tool.name for tool in gate.visible(access))


def test_a_caller_without_a_profile_of_its_own_follows_the_active_one() -> None:
    gate = _gate(active="pruner")
    assert _visible(gate, Access()) == ("prune_text",)
    assert _visible(gate, Access("default")) == ALL
    gate.swap(read({"activeProfile": "browser-only"}, CATALOG))
    assert _visible(gate, Access()) == ("browser_click",)


def test_an_admitted_call_knows_its_profile_form_and_deadline() -> None:
    tool, grant = _gate(profile("default", response={"form": "text"})).admit(Access(), "fs_read")
    assert (tool.name, grant) == ("fs_read", Grant("default", "text", 120.0))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("fs_raed", "Unknown tool: fs_raed (did you mean fs_read?)"),
        ("teleport", "Unknown tool: teleport"),
        ("", "Unknown tool: "),
        ("x" * 999, f"Unknown tool: {'x' * 100}"),
    ],
)
def test_an_unknown_tool_is_told_of_its_nearest(wanted: str, message: str) -> None:
    with pytest.raises(UnknownTool) as refused:
        _gate().admit(Access(), wanted)
    assert str(refused.value) == message


def test_a_tool_that_is_off_is_not_suggested() -> None:
    gate = _gate(profile("default", switched(fs_read=False)))
    with pytest.raises(UnknownTool) as refused:
        gate.admit(Access(), "fs_reads")
    assert refused.value.hint != "did you mean fs_read?"


@pytest.mark.parametrize(
    ("changed", "hint"),
    [
        (
            profile("default", switched(fs_read=False)),
            "fs_read is switched off in the profile default; its owner can switch it on with "
            "`mcp-agent enable fs_read` or in tools.json. Ask them, or go on without it.",
        ),
        (
            profile("default", switched(enabled=False)),
            "the category filesystem is switched off in the profile default; its owner can switch it on with "
            "`mcp-agent enable filesystem` or in tools.json. Ask them, or go on without it.",
        ),
        (
            profile("default", effects={"read": False}),
            "every tool that can read is switched off in the profile default; its owner can switch it on with "
            "`mcp-agent enable --effect read` or in tools.json. Ask them, or go on without it.",
        ),
        (
            profile("default", enabled=False),
            "the profile default is switched off; its owner can switch it on in tools.json. "
            "Ask them, or go on without it.",
        ),
    ],
)
def test_a_refusal_names_the_switch(changed: dict[str, Any], hint: str) -> None:
    with pytest.raises(ToolDisabled) as refused:
        _gate(changed).admit(Access(), "fs_read")
    assert (refused.value.message, refused.value.hint) == ("Tool fs_read is disabled", hint)


def test_a_refusal_names_the_profile_if_it_is_not_the_active_one() -> None:
    with pytest.raises(ToolDisabled) as refused:
        _gate(profile("bot", switched("shell", enabled=False))).admit(Access("bot"), "shell_exec")
    assert "`mcp-agent enable shell --profile bot`" in str(refused.value.hint)


def test_an_effect_that_is_off_takes_every_tool_of_its_kind_whatever_their_own_switches_say() -> None:
    named = switched("browser", browser_click=True), switched("shell", shell_exec=True)
    gate = _gate(profile("default", *named, effects={"execute": False, "read": True}))
    assert _visible(gate, Access()) == ("fs_list", "fs_read", "fs_write", "prune_text")
    for name in ("browser_click", "shell_exec"):
        with pytest.raises(ToolDisabled):
            gate.admit(Access(), name)


@pytest.mark.parametrize(("own", "narrowed"), list(itertools.product(SHIPPED, SHIPPED)))
def test_narrowing_gives_what_both_profiles_allow(own: str, narrowed: str) -> None:
    gate = _gate()
    both = [name for name in _visible(gate, Access(own)) if name in _visible(gate, Access(narrowed))]
    assert list(_visible(gate, Access(own, narrowed))) == both


@given(_PROFILES, _PROFILES)
def test_what_is_not_visible_is_refused_and_narrowing_never_widens(own: dict[str, Any], other: dict[str, Any]) -> None:
    gate = _gate({**own, "id": "own"}, {**other, "id": "other"})
    for access in (Access("own"), Access("own", "other"), Access("other", "own")):
        visible = _visible(gate, access)
        assert set(visible) <= set(_visible(gate, Access(access.profile)))
        for name in ALL:
            if name in visible:
                assert gate.admit(access, name)[0].name == name
            else:
                with pytest.raises(ToolDisabled):
                    gate.admit(access, name)


def test_a_profile_that_is_gone_allows_nothing() -> None:
    gate = _gate(profile("mine"))
    assert _visible(gate, Access("mine")) == ALL
    gate.swap(read({}, CATALOG))
    assert not gate.has_profile("mine")
    for access in (Access("mine"), Access("default", "mine")):
        assert _visible(gate, access) == ()
        with pytest.raises(ToolDisabled):
            gate.admit(access, "fs_read")


@pytest.mark.parametrize(
    ("own", "narrowed", "form"),
    [("auto", "auto", "auto"), ("text", "auto", "text"), ("text", "json", "json"), ("auto", "text", "text")],
)
def test_the_narrowed_profile_has_the_first_word_on_the_form(own: str, narrowed: str, form: str) -> None:
    gate = _gate(profile("own", response={"form": own}), profile("narrowed", response={"form": narrowed}))
    assert gate.form(Access("own", "narrowed")) == form


@pytest.mark.parametrize(
    ("own", "narrowed", "is_compact"),
    [("full", "full", False), ("compact", "full", True), ("full", "compact", True), ("compact", None, True)],
)
def test_results_are_short_if_either_profile_keeps_them_short(own: str, narrowed: str | None, is_compact: bool) -> None:
    gate = _gate(
        profile("own", response={"mode": own, "form": "text"}), profile("narrowed", response={"mode": narrowed})
    )
    access = Access("own", "narrowed" if narrowed else None)
    tool, grant = gate.admit(access, "fs_list")
    assert (grant.form == "compact", tool.takes_cursor) == (is_compact, is_compact)
    assert ("cursor" in tool.input_schema["properties"]) == is_compact
    assert gate.visible(access)[0] is tool
