"""Which name is suggested for a misspelt one."""

from __future__ import annotations

import pytest

from tools.kit.spelling import did_you_mean, nearest

_NAMES = ["fs_read", "fs_remove", "shell_exec", "new", ".env"]


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("fs_raed", "fs_read"),
        ("FS-Read", "fs_read"),
        ("shellexec", "shell_exec"),
        ("nwe", "new"),
        ("env", ".env"),
        ("--", None),
        ("", None),
        ("browser", None),
        ("x" * 1_000_000, None),
    ],
)
def test_the_name_with_the_most_letters_in_common_is_meant(word: str, name: str | None) -> None:
    assert nearest(word, _NAMES) == name
    assert did_you_mean(word, _NAMES) == ("" if name is None else f" (did you mean {name}?)")


def test_of_two_names_alike_the_nearer_one_is_meant() -> None:
    assert nearest("fs_remov", _NAMES) == "fs_remove"
    assert nearest("fs_remov", _NAMES, likeness=0.99) is None
