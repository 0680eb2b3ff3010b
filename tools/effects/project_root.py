"""Which folder a command is said to have changed: the nearest one above with `.git`, else the one it runs in."""

from __future__ import annotations

import os
from pathlib import Path

# What is in these is the system's.
_SYSTEM = tuple(
    "/bin /boot /dev /etc /lib /lib32 /lib64 /libx32 /proc /run /sbin /snap /sys /usr /Library /System".split()
)
# These hold what belongs to many, or to nobody.
_COMMON = frozenset(
    "/ /home /Users /media /mnt /opt /root /srv /tmp /private /private/tmp /var /var/tmp /dev/shm".split()
)
_OPEN_BELOW = ("/dev/shm/", "/usr/src/", "/usr/local/src/")


def project_root(folder: Path, home: Path | None = None) -> Path | None:
    """The project of a folder; None where there is none that may be followed."""
    real = os.path.realpath(folder)
    own = os.path.realpath(home or Path.home())
    if not os.path.isdir(real):
        # The command will not start.
        return None
    above = real
    while above != "/":
        if os.path.lexists(f"{above}/.git"):
            break
        above = os.path.dirname(above)
    for each in (above, real):
        if not _is_common(each, own):
            return Path(each)
    return None


def _is_common(folder: str, home: str) -> bool:
    if folder in _COMMON or folder == home or home.startswith(f"{folder}/"):
        return True
    is_system = any(folder == each or folder.startswith(f"{each}/") for each in _SYSTEM)
    return is_system and not folder.startswith(_OPEN_BELOW)
