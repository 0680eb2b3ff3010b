"""A daemon whose state is on a small disk of its own, and the faults that the disk can have."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import pytest

from tests.support.daemon import COMMAND, Daemon, environment, running

Fault = Literal["full", "read-only", "removed", "another kind", "rights taken"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
# Root may open everything, whatever the mode is. Without these it may not.
_RIGHTS = "-dac_override,-dac_read_search"


@dataclass(frozen=True)
class SmallDisk:
    """A disk that is mounted for one process and those that enter its namespace. It outlives the daemons on it."""

    home: Path
    folder: Path
    holder: int

    @property
    def start(self) -> tuple[str, ...]:
        """The command that starts a daemon where the disk is mounted, without the rights that root has over files."""
        return (*self._inside, f"--wd={self.home}", "setpriv", f"--bounding-set={_RIGHTS}", COMMAND)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Puts everything that a daemon keeps on the disk, but for its token."""
        places = {
            "--state-dir": self.folder / "state",
            "--tools-file": self.folder / "config" / "tools.json",
            "--token-file": self.home / "token",
        }
        return tuple(str(word) for place in places.items() for word in place)

    def path(self, name: str) -> Path:
        """Where the test sees a file of the disk."""
        return Path(f"/proc/{self.holder}/root{self.folder / name}")

    @contextlib.contextmanager
    def fault(self, name: str, fault: Fault) -> Iterator[None]:
        """Break the store `name`, a file or a folder, and mend it at the end."""
        path = self.path(name)
        match fault:
            case "full":
                with self._ballast():
                    yield
            case "read-only":
                place = path if path.is_dir() else path.parent
                place.mkdir(exist_ok=True)
                own = str(self.folder / name if path.is_dir() else (self.folder / name).parent)
                # Made read-only before it is there: what the daemon has open for writing would prevent it.
                staging = self.path("staging")
                staging.mkdir(exist_ok=True)
                self._mount("mount", "--bind", own, str(self.folder / "staging"))
                self._mount("mount", "-o", "remount,bind,ro", str(self.folder / "staging"))
                self._mount("mount", "--move", str(self.folder / "staging"), own)
                try:
                    yield
                finally:
                    self._mount("umount", "-l", own)
            case "removed":
                _remove(path)
                yield
            case "another kind":
                kept = path.with_name(f"{path.name}.kept")
                is_file = path.is_file()
                if path.exists():
                    path.rename(kept)
                path.mkdir() if is_file else path.touch()
                try:
                    yield
                finally:
                    _remove(path)
                    if kept.exists():
                        kept.rename(path)
            case "rights taken":
                place = path if path.is_dir() else path.parent
                place.mkdir(exist_ok=True)
                place.chmod(0)
                try:
                    yield
                finally:
                    place.chmod(0o700)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program where the disk is mounted, with the rights that the daemon has."""
        command = [*self._inside, "setpriv", f"--bounding-set={_RIGHTS}", *words]
        return subprocess.run(command, env=environment(self.home), capture_output=True, text=True, check=False)

    @property
    def _inside(self) -> tuple[str, ...]:
        return ("nsenter", "--mount", f"--target={self.holder}")

    @contextlib.contextmanager
    def _ballast(self) -> Iterator[None]:
        ballast = self.path("ballast")
        with ballast.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while file.write(b"\0" * size) == size:
                        pass
        try:
            yield
        finally:
            ballast.unlink()

    def _mount(self, *command: str) -> None:
        subprocess.run([*self._inside, *command], check=True)


@dataclass(frozen=True)
class BrokenDisk(SmallDisk):
    """The disk and a daemon on it."""

    daemon: Daemon


def can_break_disks() -> bool:
    return os.geteuid() == 0 and all(map(shutil.which, ("unshare", "nsenter", "setpriv", "mount")))


@contextlib.contextmanager
def small_disk(home: Path, size_mib: int = 8) -> Iterator[SmallDisk]:
    """A disk without a daemon, and a token for daemons to come."""
    if not can_break_disks():
        pytest.skip("only root can mount a disk and break it")
    folder, token_file = home / "disk", home / "token"
    folder.mkdir()
    token_file.write_text("a-token-for-this-test")
    token_file.chmod(0o600)
    mounting = f'mount -t tmpfs -o size={size_mib}m,mode=700 tmpfs "{folder}" && mkdir "{folder}/config" && echo && cat'
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", mounting], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None, "it is a pipe"
        assert holder.stdout.readline() == b"\n", "the disk was not mounted"
        try:
            yield SmallDisk(home, folder, holder.pid)
        finally:
            holder.kill()


@contextlib.contextmanager
def on_broken_disk(home: Path) -> Iterator[BrokenDisk]:
    with small_disk(home) as disk, running(home, *disk.arguments, start=disk.start) as daemon:
        yield BrokenDisk(disk.home, disk.folder, disk.holder, daemon)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
