"""Paths from the wire, made absolute and canonical; and paths as text for the wire.

Every path of the machine is open, with two exceptions: the daemon's own tokens, journal, artifact store and audit
log, and what the rules of the owner deny.

A file name can have bytes that are not UTF-8, and the wire carries text. Such bytes are written as `\\xNN`, and
`resolve` reads them back, so what a listing shows can be passed to any tool. A real backslash that would be taken
for such an escape is written as `\\x5c`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.kit.errors import Denied, InvalidPath, replaced_meanwhile
from tools.kit.rules import PathRules

_ESCAPE = r"x(?:[01][0-9a-f]|5c|7f|[89a-f][0-9a-f])"
_READ = re.compile(rf"\\{_ESCAPE}")
_AMBIGUOUS = re.compile(rf"\\(?={_ESCAPE})")
# C0, DEL, C1 and the line separators of Unicode.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_DELETED = " (deleted)"
# The system takes 4,096 bytes, each of which may be written as an escape. All that is done with a path costs the more,
# the more parts it has, so a longer one is refused before anything.
MOST_CHARS = 20_000
_LOCAL_TYPES = frozenset(
    (
        *("bcachefs", "btrfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "jfs", "ntfs3", "overlay", "ramfs"),
        *("reiserfs", "squashfs", "tmpfs", "vfat", "xfs", "zfs"),
    )
)
_TABLE_AGE_S = 5.0


class OpenPaths:
    """How a path that a caller wrote becomes a path on this machine; relative ones start at `working_directory`.

    Raises Denied for the daemon's own files, which are closed, and for what a rule of the owner denies.
    """

    def __init__(
        self,
        working_directory: Path,
        closed: tuple[Path, ...] = (),
        mounts: LocalMounts | None = None,
        denied: PathRules | None = None,
    ) -> None:
        self.working_directory = working_directory
        # The daemon's own, whatever folder the paths of a call begin in.
        self.own_directory = working_directory
        self._closed = closed
        self._closed_texts = tuple(map(str, closed))
        self._mounts = mounts or LocalMounts()
        self._denied = denied

    def denying(self, rules: PathRules) -> OpenPaths:
        """The same paths under the rules of a call."""
        paths = OpenPaths(self.own_directory, self._closed, self._mounts, rules)
        paths.working_directory = self.working_directory
        return paths

    def starting_in(self, folder: Path) -> OpenPaths:
        """The same paths; relative ones begin in `folder`."""
        paths = OpenPaths(self.own_directory, self._closed, self._mounts, self._denied)
        paths.working_directory = folder
        return paths

    def resolve(self, path: str) -> Path:
        """Absolute and canonical; symbolic links are left as they are. Raises Denied, InvalidPath."""
        if not path:
            raise InvalidPath("the path is empty", hint="pass '.' for the working directory")
        if len(path) > MOST_CHARS:
            raise InvalidPath(f"{path[:80]!r}… has {len(path):,} characters, and a path may have {MOST_CHARS:,}")
        if "\0" in path:
            raise InvalidPath(f"{path[:80]!r} has a NUL character in it, which no file name can have")
        expanded = os.path.expanduser(from_wire(path))  # noqa: PTH111 - Path.expanduser raises where there is no such user
        # As text until it is done: each Path on the way would cost more than reading a small file.
        resolved = Path(os.path.normpath(os.path.join(self.working_directory, expanded)))  # noqa: PTH118
        self.check(resolved)
        return resolved

    def real(self, path: Path) -> Path:
        """Where `path` leads when its links are followed; the end need not exist. Raises Denied, InvalidPath."""
        try:
            real = Path(os.path.realpath(path))
        except OSError as error:
            raise InvalidPath(f"{to_wire(path)}: {(error.strerror or str(error)).lower()}") from error
        self.check(real)
        return real

    def check(self, path: Path | str) -> None:
        """Raise Denied if an absolute path is, or is in, a closed or denied place."""
        text = str(path)
        # Almost no path begins like a closed one: one look at all of them says so.
        if text.startswith(self._closed_texts) and any(
            text == closed or text.startswith(closed + os.sep) for closed in self._closed_texts
        ):
            raise Denied(
                f"{to_wire(text)} belongs to the daemon itself and is closed to the filesystem tools",
                hint="what can be undone is read as undo://<id>, what was kept as ax://<domain>/<id>",
            )
        if self._denied is not None and (found := self._denied.match(text)) is not None:
            raise found.rule.refusal(to_wire(text), found.matched)

    def check_tree(self, path: Path, *names: Path) -> None:
        """Raise Denied if a closed or denied place is at `path`, above it or below it; or would be, under `names`."""
        within = self._own_files_within(path)
        self.check_as(path, path, *names)
        if within:
            raise Denied(f"{to_wire(path)} holds {to_wire(within[0])}, which belongs to the daemon itself")

    def check_as(self, tree: Path, *names: Path) -> None:
        """Raise Denied if something in `tree` may not be touched where the tree has one of `names`."""
        for name in names:
            self.check(name)
        if self._denied is None:
            return
        for relative in _below(tree):
            for name in names:
                place = f"{name}/{relative}"
                if (found := self._denied.match(place)) is not None:
                    raise found.rule.refusal(f"{to_wire(place)}, which is in {to_wire(name)},", found.matched)

    def denial_test(self, folder: Path, real: Path) -> Callable[[str], str | None] | None:
        """A function that says why a path below `folder` is closed (None: it is open). None if nothing is closed.

        `real` is where the folder was when it was opened.
        """
        # Where the folder is reached through a link, its own files are still what is closed.
        closed = tuple(str(place.relative_to(real)) for place in self._own_files_within(real))
        denied = self._denied
        if not closed and denied is None:
            return None
        inside = tuple(place + os.sep for place in closed)
        prefixes = tuple(dict.fromkeys(f"{str(place).rstrip(os.sep)}{os.sep}" for place in (folder, real)))

        def why(relative: str) -> str | None:
            if relative in closed or relative.startswith(inside):
                return "closed: it belongs to the daemon itself"
            if denied is not None:
                for prefix in prefixes:
                    found = denied.match(prefix + relative)
                    if found is not None:
                        return f"denied by the rule {found.rule.id}: {found.rule.reason}"
            return None

        return why

    def _own_files_within(self, folder: Path) -> tuple[Path, ...]:
        return tuple(place for place in self._closed if folder in place.parents or folder == place)

    def check_open(self, descriptor: int, path: Path | str) -> None:
        """Raise Denied if what was opened at `path` is in a closed or denied place, whatever links led to it."""
        if not self._closed and self._denied is None:
            return
        try:
            place = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - a Path costs as much as the call
        except OSError:
            self._check_without_proc(descriptor, path)
            return
        self.check(place)
        if place.endswith(_DELETED):
            # So the system shows a file that was deleted or replaced since it was opened.
            self.check(place.removesuffix(_DELETED))

    def _check_without_proc(self, descriptor: int, path: Path | str) -> None:
        """The same where the system does not say what is open: by where the path leads, if that is what was opened."""
        # It knows the paths of the wire.
        from tools.files.exact import LOOK_FLAGS, exact_descriptor

        real = os.path.realpath(path)
        self.check(real)
        try:
            with exact_descriptor(real, LOOK_FLAGS) as found:
                is_same = os.path.samestat(os.fstat(found), os.fstat(descriptor))
        except OSError:
            is_same = False
        if not is_same:
            raise replaced_meanwhile(to_wire(real))

    def is_local(self, path: Path) -> bool:
        """Whether looking at `path` cannot hang: by its name it is on a disk of this machine."""
        return self._mounts.holds(path)


class LocalMounts:
    """Which paths are on a disk of this machine, so that a look at them cannot hang.

    A dead network mount blocks every thread that touches it, and the event loop must not be blocked. The table of
    mounts is read again when the last look is more than a few seconds old; no file is touched.
    """

    def __init__(self, table: Path = Path("/proc/self/mountinfo")) -> None:
        self._table = table
        self._read_at = float("-inf")
        self._is_local: dict[str, bool] = {}

    def holds(self, path: Path) -> bool:
        """Whether `path`, taken by its name, lies on a local disk. Where that cannot be known: no."""
        now = time.monotonic()
        if now - self._read_at > _TABLE_AGE_S:
            self._read_at = now
            self._is_local = self._mounts()
        text = str(path)
        while text not in self._is_local:
            if text == "/" or not text:
                return False
            text = text.rpartition("/")[0] or "/"
        return self._is_local[text]

    def _mounts(self) -> dict[str, bool]:
        try:
            lines = self._table.read_text("utf-8", "surrogateescape").splitlines()
        except OSError:
            return {}
        mounts = {}
        for line in lines:
            before, _, after = line.partition(" - ")
            point = before.split()[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
            mounts[point] = after.split()[0] in _LOCAL_TYPES
        return mounts


def _below(tree: Path) -> Iterator[str]:
    """Everything below a folder, relative to it; links are given and not followed. Nothing for what is no folder."""
    waiting = [] if os.path.islink(tree) else [""]  # noqa: PTH114 - Path.is_symlink raises for a name that is too long
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(tree / folder) as found:
                children = list(found)
        except OSError:
            # What cannot be looked into is dealt with by name.
            continue
        for child in children:
            relative = f"{folder}{child.name}"
            yield relative
            if child.is_dir(follow_symlinks=False):
                waiting.append(f"{relative}/")


def to_wire(path: Path | str) -> str:
    """A path as text for the wire, in the form that `resolve` reads back to the same bytes."""
    text = path if isinstance(path, str) else str(path)
    if "\\x" in text:
        text = _AMBIGUOUS.sub(r"\\x5c", text)
    try:
        text.encode()
    except UnicodeEncodeError:
        return os.fsencode(text).decode("utf-8", "backslashreplace")
    return text


def on_one_line(shown: str) -> str:
    """A path from `to_wire` with its control characters escaped, too, for texts with one path on each line."""
    return _CONTROL.sub(lambda match: "".join(f"\\x{byte:02x}" for byte in match[0].encode()), shown)


def from_wire(path: str) -> str:
    """The path that `to_wire` was given."""
    if "\\x" not in path:
        return path
    data = _READ.sub(lambda match: chr(0xDC00 + int(match[0][2:], 16)), path)
    # Lone surrogates stand for bytes; those below 0x80 are written as the characters they are.
    return re.sub(r"[\udc00-\udc7f]", lambda match: chr(ord(match[0]) - 0xDC00), data)
