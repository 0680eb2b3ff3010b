"""Files as bytes, for a program that shows them to a person: under the rules of the tools, and in their journal."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tools.context import ToolContext
from tools.files import disk
from tools.files.diffs import common_ends
from tools.files.exact import exact_descriptor, make_folders, open_exact
from tools.files.paths import to_wire
from tools.files.revisions import rev_of_open
from tools.files.sources import OpenFile, open_existing, open_source
from tools.files.text import decode
from tools.filesystem.changes import make_parents
from tools.filesystem.fs_write import WrittenFile
from tools.kit.errors import AlreadyExists, IsBinary, NotFound, StaleRev, TooLarge, from_os_error
from tools.kit.results import Result

if TYPE_CHECKING:
    from zipfile import ZipFile

_COPY_BYTES = 256 * 1024
# An edited text is held in memory while it is written as its file was.
_MOST_EDITED_BYTES = 32 * 1024 * 1024
_LINE_END = re.compile(r"(\r\n|\r|\n)")
MOST_ARCHIVE_BYTES = 1024 * 1024 * 1024
_MOST_ARCHIVE_FILES = 100_000


class RawFile(Result, frozen=True):
    """A file that is open for reading. Who is given it closes it."""

    path: str
    size: int
    _file: BinaryIO

    @property
    def file(self) -> BinaryIO:
        return self._file

    def render(self) -> str:
        return f"{self.path} · {self.size} bytes"


class Folder(Result, frozen=True):
    path: str
    undo_id: str | None = None

    def render(self) -> str:
        return self.path


def open_raw(ctx: ToolContext, path: str) -> RawFile:
    """A regular file as it is. Raises ToolError."""
    origin = ctx.source(path)
    with open_source(ctx.paths, origin) as found:
        return RawFile(origin.shown, found.status.st_size, open(os.dup(found.descriptor), "rb", buffering=0))


def find_folder(ctx: ToolContext, path: str) -> Folder:
    """An existing folder that the caller may use. Raises ToolError."""
    folder = ctx.paths.resolve(path)
    if not ctx.paths.real(folder).is_dir():
        raise NotFound(f"{to_wire(folder)} is no folder")
    return Folder(to_wire(folder))


def write_raw(ctx: ToolContext, path: str, content: BinaryIO) -> WrittenFile:
    """Make the file `path` what `content` holds; missing folders are made. It can be undone. Raises ToolError."""
    return _write(ctx, path, lambda _, __: content)


def change_raw(ctx: ToolContext, path: str, change: Callable[[bytes], bytes]) -> WrittenFile:
    """Make of an existing file what `change` makes of its bytes. It can be undone. Raises ToolError."""

    def chosen(found: OpenFile | None, shown: str) -> BinaryIO:
        if found is None:
            raise NotFound(f"{shown} is not there")
        if found.status.st_size > _MOST_EDITED_BYTES:
            raise TooLarge(f"{shown} has more than {_MOST_EDITED_BYTES:,} bytes")
        return BytesIO(change(disk.read_up_to(found.descriptor, _MOST_EDITED_BYTES, found.status.st_size)))

    return _write(ctx, path, chosen)


def save_opened(
    ctx: ToolContext, path: str, content: BinaryIO, *, opened_rev: str, keeps_encoding: bool
) -> WrittenFile:
    """As `write_raw`, for a file that a person has opened at `opened_rev`. Raises StaleRev if it has changed since.

    One that is gone since is made again. With `keeps_encoding`, a text is written as the file was.
    """

    def chosen(found: OpenFile | None, shown: str) -> BinaryIO:
        if found is None:
            return content
        try:
            ctx.revs.check(opened_rev, found.descriptor, shown)
        except StaleRev as error:
            raise StaleRev(
                f"{shown} has changed since you opened it, so it was not saved",
                hint="keep a copy of your text, open the file again, and make your change there",
                fields=error.fields,
            ) from None
        if not keeps_encoding or max(found.status.st_size, content.seek(0, os.SEEK_END)) > _MOST_EDITED_BYTES:
            return content
        content.seek(0)
        old = disk.read_up_to(found.descriptor, _MOST_EDITED_BYTES, found.status.st_size)
        return BytesIO(as_written_before(old, content.read()))

    return _write(ctx, path, chosen)


def _write(ctx: ToolContext, path: str, choose: Callable[[OpenFile | None, str], BinaryIO]) -> WrittenFile:
    """Write what `choose` gives for the file that is there."""
    target = ctx.paths.real(ctx.paths.resolve(path))
    shown = to_wire(target)
    with ctx.journal.lock(target), open_existing(ctx.paths, target, shown) as found:
        content = choose(found, shown)
        size = content.seek(0, os.SEEK_END)

        def fill(descriptor: int) -> None:
            content.seek(0)
            while data := content.read(_COPY_BYTES):
                disk.write_all(descriptor, data)

        if found is None:
            ctx.journal.protected.check_write(target)
            make_parents(target, shown, create=True)
        try:
            receipt = ctx.journal.write(target, fill, seen=None if found is None else found.status)
        except OSError as error:
            raise from_os_error(error, shown) from error
        rev = None
        # A file may be one that can be written and not read.
        with suppress(OSError), exact_descriptor(str(target), disk.READ_FLAGS) as descriptor:
            rev = rev_of_open(descriptor)[0]
    existed = None if found is None else True
    return WrittenFile(path=shown, bytes_written=size, existed=existed, rev=rev, **receipt.fields())


def as_written_before(old: bytes, new: bytes) -> bytes:
    """The UTF-8 text `new` as the file `old` is written: in its encoding, with its mark and its line ends.

    As it is, if either is no text or `old` cannot hold it. An editor in a browser is given the text, knows nothing of
    how it was written, and ends every line with one character.
    """
    try:
        text = new.decode("utf-8")
        before, encoding = decode(old, name="", size=len(old), cut=False)
    except (UnicodeDecodeError, IsBinary):
        return new
    if encoding.bom:
        text = text.removeprefix("\ufeff")
    if "\r" in before and "\r" not in text:
        text = _with_line_ends(before, text)
    try:
        return encoding.bom + encoding.encode(text)
    except UnicodeEncodeError:
        return text.encode()


def _with_line_ends(before: str, text: str) -> str:
    """`text` with the line ends of `before`: each its own at the beginning and the end that are the same in both, and
    between them the one that is there most often."""
    parts = _LINE_END.split(before)
    ends = parts[1::2]
    lines = text.split("\n")
    head, tail = common_ends(parts[0::2], lines)
    needed = len(lines) - 1
    # Nothing ends the last line of a text.
    closing = ends[len(ends) - max(tail - 1, 0) :]
    opening = ends[: min(head, needed - len(closing))]
    usual = Counter(ends).most_common(1)[0][0]
    between = [usual] * (needed - len(opening) - len(closing))
    return "".join(chain.from_iterable(zip_longest(lines, [*opening, *between, *closing], fillvalue="")))


def make_folder(ctx: ToolContext, path: str) -> Folder:
    """Make a folder and its missing parents; it can be undone. Raises AlreadyExists if something is there."""
    target = ctx.paths.real(ctx.paths.resolve(path))
    shown = to_wire(target)
    ctx.journal.protected.check_write(target)
    if os.path.lexists(target):
        raise AlreadyExists(f"{shown} is there already")
    try:
        make_folders(target.parent)
        receipt = ctx.journal.make_folder(target)
    except OSError as error:
        raise from_os_error(error, shown) from error
    return Folder(shown, receipt.undo_id)


def make_archive(ctx: ToolContext, paths: list[str]) -> RawFile:
    """A ZIP archive of files and folders, in a temporary file. What is closed or denied is left out."""
    # Imported at first use: few daemons are ever asked for one.
    import tempfile
    import zipfile

    chosen, left = [], MOST_ARCHIVE_BYTES
    for source, name in _files_to_archive(ctx, paths):
        ctx.check()
        chosen.append((source, name))
        left -= _size(source)
        if left < 0 or len(chosen) > _MOST_ARCHIVE_FILES:
            raise _archive_too_large()
    archive = tempfile.TemporaryFile()  # noqa: SIM115 - who is given it closes it
    try:
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as written:
            left = MOST_ARCHIVE_BYTES
            for source, name in chosen:
                left -= _add(ctx, written, source, name, left)
        size = archive.tell()
        archive.seek(0)
    except BaseException:
        archive.close()
        raise
    return RawFile(_archive_name(paths), size, archive)


def _files_to_archive(ctx: ToolContext, paths: list[str]) -> Iterator[tuple[Path, str]]:
    """Every regular file to be archived, and its name in the archive. Links are left out."""
    for path in paths:
        base = ctx.paths.resolve(path)
        real = ctx.paths.real(base)
        if not real.exists():
            raise NotFound(f"{to_wire(base)} does not exist")
        if not real.is_dir():
            yield real, base.name
            continue
        why_closed = ctx.paths.denial_test(base, real)
        for folder, folders, names in os.walk(real):
            ctx.check()
            below = Path(folder).relative_to(real)
            folders[:] = sorted(each for each in folders if why_closed is None or why_closed(str(below / each)) is None)
            for name in sorted(names):
                if why_closed is None or why_closed(str(below / name)) is None:
                    yield Path(folder, name), str(Path(base.name or "root") / below / name)


def _size(source: Path) -> int:
    try:
        return source.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


def _add(ctx: ToolContext, archive: ZipFile, source: Path, name: str, most_bytes: int) -> int:
    """Add a file; returns how much was read. What is no regular file, or cannot be read, is left out."""
    ctx.check()
    try:
        descriptor = open_exact(str(source), disk.READ_FLAGS)
    except OSError:
        return 0
    with open(descriptor, "rb") as content:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return 0
        added = 0
        with archive.open(name.encode("utf-8", "replace").decode(), "w", force_zip64=True) as target:
            while data := content.read(_COPY_BYTES):
                ctx.check()
                added += len(data)
                # It may have grown since it was counted, and files in /proc have no size.
                if added > most_bytes:
                    raise _archive_too_large()
                target.write(data)
        return added


def _archive_too_large() -> TooLarge:
    return TooLarge(
        f"an archive may have {_MOST_ARCHIVE_FILES} files of {MOST_ARCHIVE_BYTES} bytes together",
        hint="take fewer folders at once",
    )


def _archive_name(paths: list[str]) -> str:
    name = Path(paths[0]).name if len(paths) == 1 else ""
    return f"{name or 'download'}.zip"
