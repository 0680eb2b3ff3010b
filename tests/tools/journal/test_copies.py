"""Copies of files for the journal."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tools.journal import copies


def test_a_copy_follows_no_link(tmp_path: Path) -> None:
    """Seen: a link took the place of a file as it was copied into the journal, and what it led to was kept there."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to("secret")
    with pytest.raises(OSError, match="symbolic links") as caught:
        copies.copy_file(tmp_path / "link", tmp_path / "copy")
    assert caught.value.errno == errno.ELOOP
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "secret"]
