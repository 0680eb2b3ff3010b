"""The name of a file says what its text is only where that leaves no doubt."""

import pytest

from tools.pruning.read import source_type_of


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("src/app.py", "code"),
        ("/srv/demo/Main.JAVA", "code"),
        ("docs/index.md", "docs"),
        ("logs/2026-01-01.log", "logs"),
        ("notes.txt", None),
        ("Makefile", None),
        ("py", None),
        ("a.py/data", None),
    ],
)
def test_a_kind_is_named_or_left_open(path: str, kind: str | None) -> None:
    assert source_type_of(path) == kind
