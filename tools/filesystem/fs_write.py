"""fs_write: create, replace or extend a file, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from tools.context import ToolContext
from tools.files import disk
from tools.files.exact import exact_descriptor
from tools.files.paths import to_wire
from tools.files.revisions import HASHED_BYTES, rev_of_open, short_rev
from tools.files.sources import OpenFile, open_existing
from tools.files.text import HEAD_BYTES, UTF_8, Encoding, detect_encoding
from tools.filesystem.changes import ChangeResult, make_parents
from tools.filesystem.previews import preview_write
from tools.filesystem.syntax import MOST_CHARS, is_checked, new_error
from tools.kit.errors import IsBinary, NotEncodable, StaleRev, from_os_error
from tools.kit.params import Field
from tools.kit.results import quantity, short_path
from tools.kit.spec import tool

Mode = Literal["overwrite", "append", "create_if_missing"]


class WrittenFile(ChangeResult, frozen=True):
    path: str
    bytes_written: int
    existed: bool | None = None
    encoding: str | None = None
    rev: str | None = None
    notes: list[str] | None = None

    def render(self) -> str:
        if self.existed and not self.bytes_written and self.undo_id is None and self.why is None:
            return f"{self.path} is there already; nothing was written"
        what = "bytes written" if self.existed else "bytes written, new"
        notes = [
            f"{self.bytes_written} {what}",
            *(self.notes or []),
            self.encoding,
            f"rev {short_rev(self.rev)}" if self.rev else None,
        ]
        return " · ".join([self.path, *(note for note in notes if note), self.undo_note])

    def summary(self) -> str:
        if self.existed and not self.bytes_written and self.undo_id is None and self.why is None:
            return f"{short_path(self.path)} is there already; nothing was written"
        what = "changed" if self.existed else "new"
        return f"{quantity(self.bytes_written, 'byte')} written to {short_path(self.path)} ({what})"


@tool(
    "filesystem",
    effect="write",
    title="Write a file",
    destructive=True,
    preview=preview_write,
    known_as=("write_file", "create_file", "save_file"),
)
def fs_write(
    ctx: ToolContext,
    *,
    path: Annotated[str, Field.of_path("File to write.")],
    content: Annotated[
        str, Field(description="The text, written as it is.", aliases=("text", "contents", "file_text"))
    ],
    create_dirs: Annotated[bool, Field(description="Make missing folders.")] = True,
    mode: Annotated[Mode, Field(audited=True)] = "overwrite",
    if_rev: Annotated[str | None, Field(description="Only if the file is still at this rev.", audited=True)] = None,
) -> WrittenFile:
    """Create, replace or extend a file. A replaced file keeps its encoding and mode."""
    # Links are followed: a write goes through a link and leaves it in place.
    target = ctx.paths.real(ctx.paths.resolve(path))
    shown = to_wire(target)
    with ctx.journal.lock(target), open_existing(ctx.paths, target, shown) as found:
        if found is None:
            if if_rev is not None:
                raise StaleRev(f"{shown} does not exist, so it is not at rev {if_rev[:40]}")
            ctx.journal.protected.check_write(target)
            make_parents(target, shown, create=create_dirs)
            return _write(ctx, target, shown, _encode(content, UTF_8, shown), UTF_8, None)
        descriptor, status = found
        if mode == "create_if_missing":
            return WrittenFile(shown, 0, existed=True, rev=_rev(ctx, target))
        if if_rev is not None:
            ctx.revs.check(if_rev, descriptor, shown)
        encoding = _encoding(descriptor, status, shown)
        if mode == "append":
            data = _encode(content, encoding, shown)
            return _write(ctx, target, shown, data, encoding, found, appends=True)
        try:
            plain = content.removeprefix("\ufeff") if encoding.bom else content
            data = encoding.bom + _encode(plain, encoding, shown)
        except NotEncodable:
            encoding, data = UTF_8, _encode(content, UTF_8, shown)
        return _write(ctx, target, shown, data, encoding, found)


def _write(
    ctx: ToolContext,
    target: Path,
    shown: str,
    data: bytes,
    encoding: Encoding,
    found: OpenFile | None,
    *,
    appends: bool = False,
) -> WrittenFile:
    before = _checked_text(ctx, shown, found, encoding)
    try:
        if found is not None and appends:
            receipt = ctx.journal.append(target, data, seen=found.status)
        else:
            receipt = ctx.journal.write(target, data, seen=None if found is None else found.status)
        rev = ctx.revs.of_bytes(data, shown) if not appends and len(data) <= HASHED_BYTES else _rev(ctx, target)
    except OSError as error:
        raise from_os_error(error, shown) from error
    return WrittenFile(
        path=shown,
        bytes_written=len(data),
        existed=None if found is None else True,
        encoding=None if encoding is UTF_8 else encoding.name,
        rev=rev,
        notes=_syntax_notes(shown, before, data, encoding, appends=appends),
        **receipt.fields(),
    )


def _checked_text(ctx: ToolContext, shown: str, found: OpenFile | None, encoding: Encoding) -> str | None:
    """What a file held, to tell a new syntax error from an old one; empty where there was none. None: do not look."""
    if not ctx.checks_syntax or not is_checked(shown):
        return None
    if found is None:
        return ""
    data = disk.read_up_to(found.descriptor, MOST_CHARS, found.status.st_size)
    try:
        return None if found.status.st_size > MOST_CHARS else encoding.decode(data.removeprefix(encoding.bom))
    except UnicodeDecodeError:
        return None


def _syntax_notes(
    shown: str, before: str | None, data: bytes, encoding: Encoding, *, appends: bool
) -> list[str] | None:
    if before is None:
        return None
    after = encoding.decode(data.removeprefix(encoding.bom))
    error = new_error(shown, before or None, before + after if appends else after)
    return [error] if error else None


def _encode(content: str, encoding: Encoding, shown: str) -> bytes:
    try:
        return content.encode(encoding.codec)
    except UnicodeEncodeError as error:
        letter = content[error.start : error.start + 1]
        raise NotEncodable(
            f"{shown} is in {encoding.name}, which cannot hold {letter!r} (character {error.start} of content)",
            hint="leave that character out, or replace the whole file, which then becomes UTF-8",
        ) from error


def _encoding(descriptor: int, status: os.stat_result, shown: str) -> Encoding:
    """The encoding of the text that is there; UTF-8 where there is none."""
    head = disk.read_up_to(descriptor, HEAD_BYTES, status.st_size)
    try:
        return detect_encoding(head, name=shown, size=status.st_size, cut=status.st_size > len(head))
    except IsBinary:
        return UTF_8


def _rev(ctx: ToolContext, target: Path) -> str:
    with exact_descriptor(str(target), disk.READ_FLAGS) as descriptor:
        rev, data = rev_of_open(descriptor)
    return rev if data is None else ctx.revs.hand_out(rev, data, to_wire(target))
