"""What a person types, as the lines that rules are about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_agent.open_terminal.typed_lines import TypedLines


def _lines(*typed: bytes) -> list[str]:
    lines = TypedLines()
    return [part.line for data in typed for part in lines.feed(data) if part.line is not None]


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ([b"ls -l\r"], "ls -l"),
        ([b"l", b"s", b"\r"], "ls"),
        ([b"lx\x7fs\r"], "ls"),
        ([b"l\xc3\xa4\x7fs\r"], "ls"),
        ([b"rm -rf\x15ls\r"], "ls"),
        ([b"rm -rf\x03ls\r"], "ls"),
        ([b"ls rm\x17-l\r"], "ls -l"),
        ([b"\x1b[A\x1b[200~ls\x1b[201~\x1bOC\r"], "ls"),
        ([b"\x7f\x7fls\n"], "ls"),
        ([b"\xff\xfels\r"], "\ufffd\ufffdls"),
    ],
)
def test_a_line_is_what_is_left_when_it_is_sent(typed: list[bytes], line: str) -> None:
    assert _lines(*typed) == [line]


def test_each_line_of_a_paste_is_one() -> None:
    assert _lines(b"one\rtwo\nthr", b"ee\r") == ["one", "two", "three"]


@given(st.lists(st.binary(max_size=40)))
def test_every_byte_is_passed_on_once_and_in_order(typed: list[bytes]) -> None:
    lines = TypedLines()
    assert b"".join(part.data for data in typed for part in lines.feed(data)) == b"".join(typed)
