"""A time limit on regular expressions that counts the time of one thread."""

from __future__ import annotations

import time

import pytest
import regex

from tools.kit.timed_match import match_within

_SLOW = regex.compile(r"^(([a-z])+.)+[A-Z]([a-z])+$")


def test_a_match_that_never_ends_is_given_up() -> None:
    began = time.thread_time()
    with pytest.raises(TimeoutError):
        match_within(0.05, _SLOW.search, "a" * 4_000)
    assert time.thread_time() - began < 0.5


def test_time_that_other_threads_have_used_does_not_count() -> None:
    """As `regex` does when others are busy: the limit passes, and this thread has done nothing."""
    timeouts: list[float] = []

    def search(text: str, /, *, timeout: float) -> str:
        timeouts.append(timeout)
        if len(timeouts) < 5:
            raise TimeoutError
        return text

    assert match_within(0.05, search, "found") == "found"
    assert timeouts == sorted(timeouts)
