"""Cursors are opaque, hold over a restart, and lead nobody to what is not theirs."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_agent.answers.pages import Pages, Place, digest_of
from mcp_agent.storage.artifact_store import ArtifactStore
from registry.catalog import discover
from tests.answers.host import CompactHost
from tools.kit.errors import InvalidParams
from tools.kit.spec import Tool

_ARGUMENTS = {"path": "/srv", "recursive": True}
_PLACE = Place("fs_list", digest_of(_ARGUMENTS), "ax://filesystem/0123456789abcdef0123", "entries", 10)


def _tool(name: str = "fs_list") -> Tool:
    found = discover().by_name.get(name)
    assert found is not None
    return found


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    return Pages(ArtifactStore(tmp_path / "artifacts"), "box-1")


def test_the_same_place_has_the_same_cursor_and_it_ends_with_the_box(pages: Pages) -> None:
    cursor = pages.write_cursor(_PLACE)
    assert (pages.write_cursor(_PLACE), cursor.endswith(".box-1")) == (cursor, True)


@pytest.mark.parametrize("cursor", ["", "c1_", "10", "c1_é", "c1_" + "A" * 40, "c1_" + "A" * 5_000, "c1_W10"])
def test_what_is_no_cursor_is_refused(pages: Pages, cursor: str) -> None:
    with pytest.raises(InvalidParams, match="pass the nextCursor of an earlier answer as it was"):
        pages.read_cursor(cursor, _tool(), {})


def test_a_cursor_is_for_its_tool_and_goes_with_its_own_arguments_or_with_none(pages: Pages) -> None:
    cursor = pages.write_cursor(_PLACE)
    for same in ({"recursive": True, "path": "/srv", "cursor": cursor, "after": None}, {"cursor": cursor}):
        assert pages.read_cursor(cursor, _tool(), same) == _PLACE
    with pytest.raises(InvalidParams, match="had other arguments"):
        pages.read_cursor(cursor, _tool(), {"path": "/etc", "cursor": cursor})
    with pytest.raises(InvalidParams, match="is not one that fs_search gave you"):
        pages.read_cursor(cursor, _tool("fs_search"), {})


_WRITTEN = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda *parts: b"[" + b",".join(parts) + b"]",
        st.sampled_from([b'"fs_list"', b'"rows"', b"7"]),
        st.just(b'""'),
        st.sampled_from([b'"HERE"', b'"ax://filesystem/0123456789abcdef0123"', b'"../x"', b"null"]),
        st.sampled_from([b'"entries"', b'"path"', b'"next"', b'""', b'"nothing"']),
        st.sampled_from([b"0", b"3", b"-1", b"9e99", b"12345678901"]),
    ),
)


async def test_a_cursor_that_somebody_made_up_is_an_error_of_the_caller(host: CompactHost, tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    for number in range(30):
        (tmp_path / "many" / f"{number}").touch()
    reference = (await host.call("fs_list", path="many"))["artifactRef"]
    tried: list[str] = []

    @given(_WRITTEN)
    def collect(written: bytes) -> None:
        made_up = written.replace(b"HERE", reference.encode())
        tried.append("c1_" + base64.urlsafe_b64encode(made_up).decode().rstrip("="))

    collect()
    for cursor in tried:
        for tool in ("fs_list", "rows"):
            shown = await host.call(tool, cursor=cursor)
            assert shown["success"] or shown["error"]["code"] in ("INVALID_PARAMS", "NOT_FOUND"), cursor


async def test_a_bad_cursor_is_an_error_that_says_what_to_do(host: CompactHost) -> None:
    refused = await host.call("fs_list", path="/", cursor="10")
    assert (refused["success"], refused["error"]["code"]) == (False, "INVALID_PARAMS")
    assert "pass the nextCursor of an earlier answer as it was" in refused["error"]["message"]
    strict = await host.answer("prune_text", era="rpc", cursor="10")
    assert (strict["error"]["code"], strict["error"]["data"]["issues"][0]["path"]) == (-32602, "arguments.cursor")
