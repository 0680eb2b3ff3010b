"""Takes back what a command did, path by path, and touches nothing else.

`capture` keeps what is there now, so that the undo can be undone, and changes nothing. `Restoring` then brings every
path to what it was. It looks at what is there and does what is missing: so it also finishes after a kill, and takes
its own work back when it fails half-way.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.files import disk
from tools.files.exact import make_folders, path_in_open_folder
from tools.journal import copies, trees
from tools.journal.command_rows import CONTENT, CommandRow, CommandRows, FileState, state_of
from tools.journal.git_index import index_digest
from tools.kit.errors import IoError

_MOST_INDEX_BYTES = 16 << 20


def stale_paths(found: CommandRows) -> list[str]:
    """The paths that are not what the command left, and those that another command may have changed."""
    stale = []
    for row in found.rows:
        now, after = _state(found.root, row.path), row.after
        if after is None or now is None:
            is_same = now is after
        elif after.is_folder:
            is_same = now.is_folder
        else:
            # An undo makes a file anew, with the same size and times.
            is_same = (now.mode, now.size, now.mtime) == (after.mode, after.size, after.mtime)
        if not is_same and not _says_the_same(found.root, row, now):
            stale.append(row.path)
    return stale + sorted(found.shared - set(stale))


def capture(found: CommandRows, image: Path, limit_bytes: int) -> tuple[list[CommandRow], list[str]]:
    """Keep in the folder `image` what the undo will replace or remove. Gives the rows that undo the undo, and the paths
    of what could not be kept."""
    image.mkdir(mode=0o700)
    wanted = {_identity(row.before): row.path for row in found.rows if row.before is not None and _is_moved_back(row)}
    rows: list[CommandRow] = []
    lost: list[str] = []
    with disk.open_descriptor(image / CONTENT, disk.NEW_FLAGS) as content:
        for number, row in enumerate(found.rows):
            now = _state(found.root, row.path)
            inverse = CommandRow(row.path, now, None, is_same=row.is_same, is_opaque=row.is_opaque, names=row.names)
            # What is moved back needs no copy.
            is_moved = now is not None and now.links == 1 and wanted.get(_identity(now), row.path) != row.path
            if now is not None and not (now.is_folder or row.is_same or is_moved or stat.S_ISFIFO(now.mode)):
                with suppress(FileNotFoundError), path_in_open_folder(_place(found.root, row.path)) as at:
                    if stat.S_ISLNK(now.mode):
                        inverse = inverse._replace(at=os.lseek(content, 0, os.SEEK_CUR))
                        disk.write_all(content, os.fsencode(os.readlink(at)))
                    elif not now.is_file or not _keep(at, now, image / str(number), limit_bytes):
                        lost.append(row.path)
                    else:
                        inverse = inverse._replace(file=str(number))
            rows.append(inverse)
        os.fsync(content)
    own = {row.path for row in found.rows}
    # The folders around them get other times, and the staging folder is made in the project itself.
    for folder in {"", *map(os.path.dirname, own)} - own:
        if (now := _state(found.root, folder)) is not None and now.is_folder:
            rows.append(CommandRow(folder, now, None, is_same=True))
    return sorted(rows), lost


def finished(rows: Sequence[CommandRow], root: str) -> list[CommandRow]:
    """The rows of an undo with what it has left, for those who want to undo it."""
    return [row._replace(after=_state(root, row.path)) for row in rows]


class Restoring:
    """Brings paths to the state `before` of their rows. `image` has the contents, `staging` is a folder in the project
    for what is on its way. `taken` is what was captured of each path: nothing else is removed."""

    def __init__(self, found: CommandRows, image: Path, staging: Path, taken: Sequence[CommandRow]) -> None:
        self._root = found.root
        own = {row.path for row in found.rows}
        self._rows = sorted([*found.rows, *(row for row in taken if row.path not in own)])
        self._image = image
        self._staging = staging
        self._taken = {row.path: row.before for row in taken}
        # Where each inode is that a row may want back.
        self._places: dict[int, str] = {}
        self._content = -1
        self._number = 0
        # What is not as it was, because something else is there now.
        self.left: list[str] = []

    def restore(self) -> None:
        """Raises OSError; then it can be called again, or that of the captured rows."""
        self._make_writable()
        with suppress(FileExistsError):
            self._staging.mkdir(mode=0o700)
        with disk.open_descriptor(self._image / CONTENT) as self._content:
            self._move_aside()
            moved_along = self._put_folders_back()
            rows = [row for row in self._rows if not row.path.startswith(moved_along)] if moved_along else self._rows
            for row in reversed(rows):
                self._remove(row)
            for row in rows:
                if row.before is not None and row.before.is_folder:
                    self._make_folder(row)
            for row in sorted(rows, key=self._is_still_itself, reverse=True):
                if row.before is not None and not row.before.is_folder:
                    self._put(row, row.before)
            trees.discard(self._staging)
            for row in reversed(rows):
                if row.before is not None and row.before.is_folder:
                    self._give_to_folder(row, row.before)

    def _make_writable(self) -> None:
        """Folders that we may not write into, though they are ours, for the time of the undo."""
        for folder in {"", *(os.path.dirname(row.path) for row in self._rows)}:
            now = _state(self._root, folder)
            if now is not None and now.is_folder and now.mode & 0o300 != 0o300:
                with suppress(PermissionError), self._at(folder) as at:
                    os.chmod(at, stat.S_IMODE(now.mode) | 0o700)

    def _move_aside(self) -> None:
        """Move what belongs to another path out of the way, by its inode: it is moved back, however large it is."""
        wanted = {row.before.inode: row for row in self._rows if row.before is not None and _is_moved_back(row)}
        for name in os.listdir(self._staging):
            if name.startswith("moved-"):
                self._places[int(name.removeprefix("moved-"))] = f"{self._staging}/{name}"
        for row in self._rows:
            now = _state(self._root, row.path)
            if now is None or not now.is_file or now.links != 1 or now.inode in self._places:
                continue
            target = wanted.get(now.inode)
            if target is None or target.path == row.path or target.before is None:
                continue
            if (target.before.mtime, target.before.size) == (now.mtime, now.size):
                place = f"{self._staging}/moved-{now.inode}"
                with self._at(row.path) as at:
                    os.rename(at, place)
                self._places[now.inode] = place

    def _put_folders_back(self) -> tuple[str, ...]:
        """Rename folders that were moved and not looked into. Gives prefixes of what has come along with them."""
        along: list[str] = []
        now = {}
        for row in self._rows:
            if (state := _state(self._root, row.path)) is not None and state.is_folder:
                now[state.inode] = row.path
        for row in self._rows:
            if row.before is None or not row.before.is_folder or os.path.lexists(_place(self._root, row.path)):
                continue
            source = now.get(row.before.inode)
            other = next((each for each in self._rows if each.path == source), None)
            if source is None or other is None or other.before is not None or not (row.is_opaque or other.is_opaque):
                continue
            make_folders(_place(self._root, row.path).parent)
            with self._at(source) as at, self._at(row.path) as target:
                copies.rename_new(at, target)
            along += [f"{source}/", f"{row.path}/"]
        return tuple(along)

    def _remove(self, row: CommandRow) -> None:
        """Remove what is there now, if the row wants nothing or something of another kind."""
        now = _state(self._root, row.path)
        if now is None or (row.before is not None and row.before.kind == now.kind) or not row.path:
            return
        if self._is_foreign(row, now):
            self.left.append(row.path)
            return
        with self._at(row.path) as at:
            try:
                if now.is_folder:
                    os.rmdir(at)
                else:
                    os.unlink(at)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY):
                    raise
                self.left.append(row.path)

    def _make_folder(self, row: CommandRow) -> None:
        place = _place(self._root, row.path)
        if _state(self._root, row.path) is None:
            make_folders(place)

    def _put(self, row: CommandRow, wanted: FileState) -> None:
        now = _state(self._root, row.path)
        if now is not None and (now.is_folder or self._is_foreign(row, now)):
            if row.path not in self.left:
                self.left.append(row.path)
            return
        if row.is_same:
            if now is not None:
                self._give(row.path, wanted)
            if now is not None and now.inode == wanted.inode:
                # A new name of it may be put back, too.
                self._places.setdefault(wanted.inode, str(_place(self._root, row.path)))
            return
        make_folders(_place(self._root, row.path).parent)
        if wanted.links > 1 and wanted.is_file and self._link_to_other(row, wanted, now):
            return
        staged = self._stage(row, wanted, now)
        if staged is not None:
            with self._at(row.path) as at:
                os.replace(staged, at)
                # Of two names of one file the rename has left both.
                Path(staged).unlink(missing_ok=True)
        elif now is None or now.inode != wanted.inode:
            self.left.append(row.path)
            return
        self._places.setdefault(wanted.inode, str(_place(self._root, row.path)))

    def _link_to_other(self, row: CommandRow, wanted: FileState, now: FileState | None) -> bool:
        """Make the path another name of a file that is back already, or was not touched."""
        for name in row.names:
            state = _state(self._root, name)
            if state is not None and state.inode == wanted.inode:
                self._places.setdefault(wanted.inode, str(_place(self._root, name)))
        other = self._places.get(wanted.inode)
        if other is None or not os.path.lexists(other):
            if now is not None and now.is_file and now.inode == wanted.inode and self._had_several_names(row):
                self._overwrite(row, wanted)
                self._places[wanted.inode] = str(_place(self._root, row.path))
                return True
            return False
        if now is None or now.inode != os.lstat(other).st_ino:
            staged = self._new_name()
            os.link(other, staged, follow_symlinks=False)
            with self._at(row.path) as at:
                os.replace(staged, at)
        return True

    def _had_several_names(self, row: CommandRow) -> bool:
        """Whether it had them when it was captured: one of those that it has now may be the image's."""
        if row.path not in self._taken:
            return True
        taken = self._taken[row.path]
        return taken is not None and taken.links > 1

    def _overwrite(self, row: CommandRow, wanted: FileState) -> None:
        """Write the old content into the file itself, which keeps its other names."""
        with self._at(row.path) as at:
            mode = os.lstat(at).st_mode
            if not mode & stat.S_IWUSR:
                os.chmod(at, stat.S_IMODE(mode) | stat.S_IWUSR)
            with disk.open_descriptor(at, disk.WRITE_FLAGS) as writing:
                self._fill(row, wanted, writing)
            _give(at, wanted, self._attributes(row, wanted))

    def _stage(self, row: CommandRow, wanted: FileState, now: FileState | None) -> str | None:
        """A new file, link or pipe that is what the row wants; None where its content is nowhere."""
        moved = self._places.get(wanted.inode)
        if moved is not None and moved.startswith(f"{self._staging}/") and os.path.lexists(moved):
            _give(moved, wanted)
            return moved
        staged = self._new_name()
        if stat.S_ISLNK(wanted.mode):
            os.symlink(self._bytes(row, wanted), os.fsencode(staged))
        elif stat.S_ISFIFO(wanted.mode):
            os.mkfifo(staged, 0o600)
        elif not wanted.is_file or not row.has_content:
            return None
        elif row.file:
            kept = self._image / row.file
            try:
                os.link(kept, staged, follow_symlinks=False)
            except OSError:
                copies.copy_file(kept, Path(staged), sync=False)
        else:
            with disk.open_descriptor(Path(staged), disk.NEW_FLAGS) as writing:
                self._fill(row, wanted, writing)
        _give(staged, wanted, None if row.file else self._attributes(row, wanted))
        return staged

    def _fill(self, row: CommandRow, wanted: FileState, writing: int) -> None:
        if row.file:
            with disk.open_descriptor(self._image / row.file) as reading:
                copies.overwrite(reading, writing)
            return
        os.ftruncate(writing, 0)
        if copies.copy_bytes(self._content, writing, wanted.size, row.at) != wanted.size:
            raise IoError(f"the journal's copy of {row.path} is cut off")

    def _bytes(self, row: CommandRow, wanted: FileState) -> bytes:
        return os.pread(self._content, wanted.size, row.at)

    def _attributes(self, row: CommandRow, wanted: FileState) -> dict[str, str] | None:
        """The extended attributes that go with a packed content."""
        if not wanted.is_file or row.file:
            return None
        data = os.pread(self._content, row.attribute_bytes, row.at + wanted.size) if row.attribute_bytes else b"{}"
        found: dict[str, str] = json.loads(data)
        return found

    def _give(self, path: str, wanted: FileState) -> None:
        with self._at(path) as at:
            _give(at, wanted)

    def _give_to_folder(self, row: CommandRow, wanted: FileState) -> None:
        now = _state(self._root, row.path)
        if now is not None and now.is_folder:
            self._give(row.path, wanted)
        elif row.path not in self.left:
            self.left.append(row.path)

    def _is_foreign(self, row: CommandRow, now: FileState) -> bool:
        """Whether somebody has put something there since what was there was captured."""
        taken = self._taken.get(row.path)
        known = [each.inode for each in (taken, row.before) if each is not None]
        if now.inode in known or (row.before is not None and (now.size, now.mtime) == row.before[4:6]):
            return False
        return row.path in self._taken

    def _is_still_itself(self, row: CommandRow) -> bool:
        """Of several names of one file, those come first that still are that file."""
        if row.before is None or row.before.links < 2:
            return False
        now = _state(self._root, row.path)
        return now is not None and now.inode == row.before.inode

    def _new_name(self) -> str:
        self._number += 1
        name = f"{self._staging}/new-{self._number}"
        with suppress(FileNotFoundError):
            os.unlink(name)
        return name

    @contextmanager
    def _at(self, path: str) -> Iterator[Path]:
        with path_in_open_folder(_place(self._root, path)) as at:
            yield at


def materialize(found: CommandRows, path: str, image: Path) -> Path | None:
    """The old content of a path as a file of its own in `image`; None if the path has none there."""
    number, row = next(((n, row) for n, row in enumerate(found.rows) if row.path == path), (0, None))
    if row is None or row.before is None or not row.has_content:
        return None
    if row.file:
        return image / row.file
    shown = image / f"shown-{number}"
    if not os.path.lexists(shown):
        staged = image / f"shown-{number}.new"
        staged.unlink(missing_ok=True)
        with disk.open_descriptor(image / CONTENT) as content:
            if stat.S_ISLNK(row.before.mode):
                os.symlink(os.pread(content, row.before.size, row.at), os.fsencode(staged))
            else:
                with disk.open_descriptor(staged, disk.NEW_FLAGS) as writing:
                    copies.copy_bytes(content, writing, row.before.size, row.at)
                os.chmod(staged, stat.S_IMODE(row.before.mode) | stat.S_IRUSR)
        os.rename(staged, shown)
    return shown


def _keep(at: Path, now: FileState, kept: Path, limit_bytes: int) -> bool:
    """Keep a file by a second name, or by a copy where that name would not stay its only one."""
    if now.links == 1:
        with suppress(OSError):
            os.link(at, kept, follow_symlinks=False)
            return True
    if now.size > limit_bytes:
        return False
    copies.copy_file(at, kept)
    return True


def _give(place: Path | str, wanted: FileState, attributes: dict[str, str] | None = None) -> None:
    """Owner, mode, attributes and times, as far as we may."""
    now = os.lstat(place)
    if (now.st_uid, now.st_gid) != (wanted.uid, wanted.gid):
        with suppress(PermissionError):
            os.lchown(place, wanted.uid, wanted.gid)
    if not stat.S_ISLNK(wanted.mode):
        os.chmod(place, stat.S_IMODE(wanted.mode) | stat.S_IRUSR | stat.S_IWUSR)
        if attributes is not None:
            _give_attributes(place, attributes)
        os.chmod(place, stat.S_IMODE(wanted.mode))
    os.utime(place, ns=(wanted.mtime, wanted.mtime), follow_symlinks=False)


def _give_attributes(place: Path | str, attributes: dict[str, str]) -> None:
    with suppress(OSError):
        for name in set(os.listxattr(place)) - set(attributes):
            with suppress(OSError):
                os.removexattr(place, name)
        for name, value in attributes.items():
            with suppress(OSError):
                os.setxattr(place, name, bytes.fromhex(value))


def _state(root: str, path: str) -> FileState | None:
    try:
        return state_of(os.lstat(f"{root}/{path}" if path else root))
    except OSError:
        return None


def _is_moved_back(row: CommandRow) -> bool:
    """Whether its content is nowhere but where the command has moved the file to. What is the same has it in place."""
    if row.before is None or row.is_same or row.has_content:
        return False
    return row.before.is_file and row.before.links == 1


def _identity(state: FileState) -> tuple[int, int, int]:
    return state.inode, state.mtime, state.size


def _place(root: str, path: str) -> Path:
    return Path(f"{root}/{path}" if path else root)


def _says_the_same(root: str, row: CommandRow, now: FileState | None) -> bool:
    """Whether it is an index of git with other times in it."""
    if not row.digest or now is None or not now.is_file:
        return False
    try:
        return index_digest(disk.read_small_file(_place(root, row.path), _MOST_INDEX_BYTES)).hex() == row.digest
    except OSError:
        return False
