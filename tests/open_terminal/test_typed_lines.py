"""What a person types, as the lines that rules are about."""

from __future__ import annotations

import time

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


@pytest.mark.parametrize(
    "typed",
    [
        b"x" * 8_100 + b" a" * 12 + b"\x17" * 12,
        (b"a " * 4_000 + b"\x17" * 4_000) * 10,
        b"\x80" * 8_192 + b"\x7f" * 50_000,
        b"x" * 500_000,
    ],
    ids=["a long word", "many words", "bytes of no character", "text"],
)
def test_what_is_typed_is_followed_in_linear_time(typed: bytes) -> None:
    """Seen: the first of these took 14 s, and everybody waited."""
    began = time.process_time()
    assert _lines(typed) == []
    assert time.process_time() - began < 4.0


@given(st.lists(st.binary(max_size=40)))
def test_every_byte_is_passed_on_once_and_in_order(typed: list[bytes]) -> None:
    lines = TypedLines()
    assert b"".join(part.data for data in typed for part in lines.feed(data)) == b"".join(typed)
