"""Bytes of UTF-8 are cut between characters, and bytes that are no UTF-8 anywhere."""

from __future__ import annotations

import pytest

from tools.files.utf8 import boundary, incomplete_bytes, orphan_bytes

_TEXTS = ["ä", "€", "😀", "a€", "€a😀", "ascii"]


@pytest.mark.parametrize("text", _TEXTS)
def test_no_cut_splits_a_character(text: str) -> None:
    data = text.encode()
    for cut in range(len(data) + 1):
        end = boundary(data, cut)
        assert cut - 3 <= end <= cut
        assert data[:end].decode() + data[end:].decode() == text


@pytest.mark.parametrize("text", _TEXTS)
def test_an_incomplete_character_is_found_at_every_cut(text: str) -> None:
    data = text.encode()
    for cut in range(1, len(data) + 1):
        whole = data[: cut - incomplete_bytes(data[:cut])]
        assert text.startswith(whole.decode())
        rest = data[cut:]
        assert text.endswith(rest[orphan_bytes(rest) :].decode())


@pytest.mark.parametrize("data", [b"\xff", b"\x80\x80\x80\x80", b"a\xc0", b"\xf8\x88"])
def test_bytes_that_begin_no_character_are_not_waited_for(data: bytes) -> None:
    assert incomplete_bytes(data) == 0


def test_what_is_no_utf_8_is_cut_where_it_is_asked_for() -> None:
    assert [boundary(b"\x80" * 9, end) for end in range(10)] == list(range(10))
