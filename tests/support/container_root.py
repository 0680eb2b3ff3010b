"""A root folder of Debian with podman, entered by `pivot_root`: a plain chroot would not do, because podman finds the
root of a container by way of the mounts, and `podman exec` would enter the machine's own.

`python -m tests.support.container_root` makes it, once, with debootstrap, as root. It is the base of the image, too, so
no registry is asked for anything.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from tests.support import ROOT, cache

_SUITE = "bookworm"
# The Python of that suite.
PYTHON = (3, 11)
_NAME = f"container-root-{_SUITE}"
_PODMAN = ("podman", "buildah", "crun", "iptables")
_BUILD_S = 900.0

# In namespaces of its own: the clone at /src, files of the test at /shared, and nothing else of the machine.
_ENTER = """
set -e
root=$1 shared=$2 src=$3; shift 3
mount --make-rprivate /
mount --bind "$root" "$root"
mkdir -p "$root/old" "$root/src" "$root/shared"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys"
mount -t cgroup2 cgroup "$root/sys/fs/cgroup"
mount --bind -o ro "$src" "$root/src"
mount --bind "$shared" "$root/shared"
mount -t tmpfs tmp "$root/run"
mount -t tmpfs tmp "$root/tmp"
cd "$root"
pivot_root . old
umount -l /old
cd /
exec "$@"
"""


def found() -> Path | None:
    folder = platformdirs.user_cache_path("mcp-agent-tests") / _NAME
    return folder if folder.is_dir() else None


def why_not() -> str | None:
    """Why no container can be built and run here; None if it can."""
    if os.geteuid() != 0:
        return "containers in a root of their own need root"
    if found() is None:
        return "there is no root with podman; make it with: python -m tests.support.container_root"
    if sys.version_info[:2] != PYTHON:
        return f"the base of the image has Python {PYTHON[0]}.{PYTHON[1]}"
    return None


def make() -> Path:
    """Raises NotInstalled."""
    if shutil.which("debootstrap") is None:
        raise cache.NotInstalled("debootstrap is missing; apt-get install debootstrap")

    def fill(folder: Path) -> None:
        folder.chmod(0o755)
        cache.install(
            ["debootstrap", "--variant=minbase", "--include=ca-certificates,python3-venv", _SUITE, str(folder)]
        )
        # Not by debootstrap, whose order of setting packages up does not suit them.
        cache.install(["chroot", str(folder), "apt-get", "install", "-qq", "-y", "--no-install-recommends", *_PODMAN])
        shutil.rmtree(folder / "var/cache/apt/archives", ignore_errors=True)

    return cache.kept(_NAME, fill)


def run(script: str, shared: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A script of bash inside the root, with what podman keeps in `shared`."""
    root = found()
    assert root is not None, "why_not has said so"
    namespaces = ["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child"]
    inside: Sequence[str] = ("bash", "-euc", script, "bash", *arguments)
    return subprocess.run(
        [*namespaces, "bash", "-c", _ENTER, "bash", str(root), str(shared), str(ROOT), *inside],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"},
        timeout=_BUILD_S,
        check=False,
    )


if __name__ == "__main__":
    print(make())
