"""A path is opened through no symbolic link, with `openat2` and without it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tools.files import disk, exact


@pytest.fixture(params=["openat2", "by parts"])
def tree(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "by parts":
        # As on a kernel that has no such call.
        monkeypatch.setattr(exact, "_openat2", lambda: None)
    elif exact._openat2() is None:
        pytest.skip("this kernel has no openat2")
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("text")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "a" / "link").symlink_to("b/file")
    return tmp_path


@pytest.mark.parametrize("path", ["a/b/file", "./a//b/file"])
def test_a_path_without_links_is_opened(tree: Path, path: str) -> None:
    with disk.open_descriptor(tree, disk.FOLDER_FLAGS) as folder:
        for opened in (
            exact.exact_descriptor(path, disk.READ_FLAGS, folder),
            exact.exact_descriptor(f"{tree}/{path}", disk.READ_FLAGS),
        ):
            with opened as descriptor:
                assert os.read(descriptor, 100) == b"text"


@pytest.mark.parametrize(
    ("path", "flags", "code"),
    [
        ("link/b/file", disk.READ_FLAGS, errno.ELOOP),
        ("a/link", disk.READ_FLAGS, errno.ELOOP),
        ("link", disk.FOLDER_FLAGS, errno.ELOOP),
        ("a/b/file/below", disk.READ_FLAGS, errno.ENOTDIR),
        ("a/b/none", disk.READ_FLAGS, errno.ENOENT),
        ("../outside", disk.READ_FLAGS, errno.EXDEV),
    ],
)
def test_a_link_on_the_way_or_a_way_out_is_an_error(tree: Path, path: str, flags: int, code: int) -> None:
    with (
        disk.open_descriptor(tree, disk.FOLDER_FLAGS) as folder,
        pytest.raises(OSError, match=os.strerror(code)),
        exact.exact_descriptor(path, flags, folder),
    ):
        pass


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_descent_of_many_levels_keeps_few_descriptors_open(tmp_path: Path) -> None:
    names = [f"level-{number}" for number in range(150)]
    with disk.open_descriptor(tmp_path, disk.FOLDER_FLAGS) as base:
        descent = exact.Descent(base)
        before = _open_files()
        for name in names:
            os.mkdir(name, dir_fd=descent.place())
            descent.enter(name)
        for name in reversed(names):
            assert _open_files() - before <= 66
            descent.leave()
            assert os.stat(name, dir_fd=descent.place()).st_nlink >= 2
        descent.close()
