from __future__ import annotations

import stat
from pathlib import Path

import pytest

from mcp_agent.compact.cursors import Cursors, Origin, Place, is_cursor
from tests.compact.host import CompactHost, compact_host
from tools.kit.errors import InvalidParams

_PLACE = Place("ax://filesystem/0123456789abcdef0123", "entries", 10)
_ORIGIN = Origin.of("fs_list", "owner", {"path": "/srv", "recursive": True})


@pytest.fixture
def cursors(tmp_path: Path) -> Cursors:
    return Cursors(tmp_path / "state" / "cursor.key")


def test_the_same_place_has_the_same_cursor_also_after_a_restart(cursors: Cursors, tmp_path: Path) -> None:
    cursor = cursors.write(_PLACE, _ORIGIN)
    again = Cursors(tmp_path / "state" / "cursor.key")
    assert again.write(_PLACE, _ORIGIN) == cursor
    assert again.read(cursor, _ORIGIN) == (_PLACE, _ORIGIN)


def test_the_key_is_for_its_owner_alone(cursors: Cursors, tmp_path: Path) -> None:
    cursors.write(_PLACE, _ORIGIN)
    assert stat.S_IMODE((tmp_path / "state" / "cursor.key").stat().st_mode) == 0o600


def test_a_cursor_with_any_letter_changed_is_refused(cursors: Cursors) -> None:
    cursor = cursors.write(_PLACE, _ORIGIN)
    for index in range(len(cursor)):
        for other in "Ab_":
            changed = cursor[:index] + other + cursor[index + 1 :]
            if changed != cursor:
                with pytest.raises(InvalidParams, match="is not one that fs_list gave you"):
                    cursors.read(changed, _ORIGIN)


@pytest.mark.parametrize("cursor", ["", "c1_", "10", "c1_é", "c1_" + "A" * 40, "c1_" + "A" * 5_000])
def test_what_is_no_cursor_is_refused(cursors: Cursors, cursor: str) -> None:
    with pytest.raises(InvalidParams):
        cursors.read(cursor, _ORIGIN)


@pytest.mark.parametrize("change", [{"tool": "fs_search"}, {"owner": "guest"}])
def test_a_cursor_is_for_its_tool_and_its_caller(cursors: Cursors, change: dict[str, str]) -> None:
    cursor = cursors.write(_PLACE, _ORIGIN)
    with pytest.raises(InvalidParams, match="is not one that"):
        cursors.read(cursor, _ORIGIN._replace(**change))


def test_a_cursor_goes_with_its_own_arguments_or_with_none(cursors: Cursors) -> None:
    cursor = cursors.write(_PLACE, _ORIGIN)
    for same in ({"recursive": True, "path": "/srv", "cursor": cursor, "after": None}, {"cursor": cursor}):
        assert cursors.read(cursor, Origin.of("fs_list", "owner", same)) == (_PLACE, _ORIGIN)
    with pytest.raises(InvalidParams, match="had other arguments"):
        cursors.read(cursor, Origin.of("fs_list", "owner", {"path": "/etc", "cursor": cursor}))


def test_where_no_key_can_be_kept_cursors_hold_for_the_process(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    cursors = Cursors(tmp_path / "state" / "cursor.key")
    assert cursors.read(cursors.write(_PLACE, _ORIGIN), _ORIGIN) == (_PLACE, _ORIGIN)


def test_a_cursor_is_known_by_its_beginning() -> None:
    assert [is_cursor(text) for text in ("c1_abc", "17", "")] == [True, False, False]


async def test_the_key_is_closed_to_the_tools(tmp_path: Path) -> None:
    async with compact_host(tmp_path) as host:
        await host.call("rows", count=11)
        assert (await host.call("fs_read", path=str(tmp_path / "state" / "cursor.key")))["error"]["code"] == "DENIED"


async def test_a_bad_cursor_is_an_error_that_says_what_to_do(host: CompactHost) -> None:
    refused = await host.call("fs_list", path="/", cursor="10")
    assert (refused["success"], refused["error"]["code"]) == (False, "INVALID_PARAMS")
    assert "pass the nextCursor of an earlier answer as it was" in refused["error"]["message"]
    strict = await host.answer("prune_text", era="rpc", cursor="10")
    assert (strict["error"]["code"], strict["error"]["data"]["issues"][0]["path"]) == (-32602, "arguments.cursor")
