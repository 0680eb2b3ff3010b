"""fs_read: a text file or the text of a document from its start, up to a number of bytes; or an image."""

from __future__ import annotations

import base64
import os
import stat
from typing import Annotated

from msgspec.structs import replace

from tools.context import ToolContext
from tools.files import documents, image_worker, images
from tools.files.disk import read_up_to
from tools.files.revisions import HASHED_BYTES, rev_of_status, short_rev
from tools.files.sources import OpenFile, Source, is_artifact, is_reference, open_source
from tools.files.text import LOOK_AHEAD_BYTES, UTF_8, decode, refuse_later_binary
from tools.filesystem.fs_read_range import LineRange, read_lines
from tools.kit.params import Field
from tools.kit.results import (
    ArtifactRange,
    Body,
    Content,
    Media,
    Result,
    ResultFacts,
    ShownText,
    line_count,
    line_cut,
    quantity,
    short_path,
)
from tools.kit.spec import tool

_INSTANT_BYTES = 128 * 1024


class FileText(Result, frozen=True):
    path: str
    content: str
    truncated: bool | None
    size: int
    next_line: int | None = None
    encoding: str | None = None
    rev: str | None = None

    def render(self) -> str:
        return f"{self._header}\n{self.content}"

    @property
    def _header(self) -> str:
        shown = f"{self.size} bytes"
        if self.truncated:
            shown = f"the start of {self.size} bytes; go on with {self._next_call}"
        notes = [note for note in (self.encoding, f"rev {short_rev(self.rev)}" if self.rev else None) if note]
        return " · ".join([self.path, shown, *notes])

    def summary(self) -> str:
        lines = quantity(line_count(self.content), "line")
        how_many = f"the first {lines} of" if self.truncated else f"{lines},"
        return f"{how_many} {self.size:,} bytes of {short_path(self.path)}"

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(next_call=self._next_call if self.truncated else None)

    @property
    def body(self) -> Body:
        shown = None if self.truncated else ShownText(self._header, self.content, self.path, 1, is_whole=True)
        if not is_artifact(self.path):
            return Body("content", cut=self._cut, shown=shown)
        kept = ArtifactRange(self.path, 0, len(self.content.encode())) if self.encoding is None else None
        return Body("content", cut=self._cut, is_asked=True, artifact_range=kept, shown=shown)

    def _cut(self, most: int) -> FileText:
        content = self.content[: line_cut(self.content, most)]
        return replace(self, content=content, truncated=True, next_line=_next_line(content))

    @property
    def _next_call(self) -> str:
        return f"fs_read_range from line {self.next_line}"


class FileImage(Result, frozen=True):
    """A picture. `scaled_to` is the size of the one that is sent, where that is not the file itself."""

    path: str
    media_type: str
    size: int
    width: int
    height: int
    scaled_to: str | None = None
    rev: str | None = None
    _sent: Media = Media("", b"")

    def render(self) -> str:
        kind = self.media_type.rpartition("/")[2].upper()
        facts = [self.path, f"{kind} image of {self.width} × {self.height} pixels", f"{self.size} bytes"]
        facts += [f"scaled down to {self.scaled_to}"] if self.scaled_to else []
        return " · ".join([*facts, *([f"rev {short_rev(self.rev)}"] if self.rev else [])])

    @property
    def body(self) -> Body:
        image = {"type": "image", "data": base64.b64encode(self._sent.data).decode(), "mimeType": self._sent.type}
        return Body(content=Content([{"type": "text", "text": self.render()}, image], media=self._sent))


def _is_instant(
    ctx: ToolContext, *, path: str, max_bytes: int, start_line: int | None = None, end_line: int | None = None
) -> bool:
    if max_bytes > _INSTANT_BYTES or is_reference(path) or start_line is not None or end_line is not None:
        return False
    target = ctx.paths.resolve(path)
    if not ctx.paths.is_local(target):
        return False
    try:
        status = os.lstat(target)
    except OSError:
        return True
    return stat.S_ISREG(status.st_mode) and status.st_size <= _INSTANT_BYTES


@tool(
    "filesystem",
    effect="read",
    title="Read a file",
    focus="allowed",
    instant=_is_instant,
    known_as=("read_file", "read_text_file", "get_file_contents", "view_file", "view", "open_file", "cat"),
)
def fs_read(
    ctx: ToolContext,
    *,
    path: Annotated[str, Field.of_path("File, ax:// or undo:// reference.")],
    max_bytes: Annotated[int, Field(minimum=1, maximum=16_777_216, is_size=True)] = 131_072,
    start_line: Annotated[int | None, Field(is_hidden=True)] = None,
    end_line: Annotated[int | None, Field(is_hidden=True)] = None,
) -> FileText | FileImage | LineRange:
    """Read an image, a PDF or office document as text, or a text file up to max_bytes. Give its `rev` back
    as if_rev when you change the file."""
    if start_line is not None or end_line is not None:
        return read_lines(ctx, path, start_line or 1, end_line or -1)
    origin = ctx.source(path)
    with open_source(ctx.paths, origin) as file:
        descriptor, status = file.descriptor, file.status
        # A file whose revision is a hash of its content is read whole, even if less of it is shown.
        is_hashed = status.st_size <= HASHED_BYTES
        wanted = max(max_bytes, HASHED_BYTES if is_hashed else 0) + LOOK_AHEAD_BYTES
        data = read_up_to(descriptor, wanted, status.st_size)
        if images.is_candidate(data) and (picture := images.recognize(os.pread(descriptor, images.HEAD_BYTES, 0))):
            whole = data if is_hashed and len(data) <= HASHED_BYTES else None
            return _image(ctx, origin, file, picture, whole)
        if kind := documents.kind_of(origin.shown, data):
            return _document(ctx, origin, file, kind, max_bytes)
        shown = data[:max_bytes] if len(data) > max_bytes else data
        is_cut = len(data) > max_bytes
        # The size of files in /proc is 0, and in /sys one page, whatever they hold: then what was read counts.
        size = max(status.st_size, len(data)) if is_cut else len(data)
        ahead = data[max_bytes : max_bytes + LOOK_AHEAD_BYTES] if is_cut else b""
        decoded = decode(shown, name=origin.shown, size=size, cut=is_cut, ahead=ahead)
        if is_cut:
            refuse_later_binary(descriptor, len(shown), size, decoded.encoding, origin.shown)
    rev = None
    if not origin.is_kept:
        is_whole = is_hashed and len(data) <= HASHED_BYTES
        rev = ctx.revs.of_bytes(data, origin.shown) if is_whole else rev_of_status(status)
    return FileText(
        path=origin.shown,
        content=decoded.text,
        truncated=True if is_cut else None,
        size=size,
        next_line=_next_line(decoded.text) if is_cut else None,
        encoding=None if decoded.encoding is UTF_8 else decoded.encoding.name,
        rev=rev,
    )


def _image(ctx: ToolContext, origin: Source, file: OpenFile, picture: images.Picture, whole: bytes | None) -> FileImage:
    """`whole` is the file where it is small. A larger one is read by the process that scales it down."""
    size = file.status.st_size if whole is None else len(whole)
    if whole is not None and size <= image_worker.MOST_BYTES:
        sent, sent_as = whole, picture
    else:
        sent, sent_as = ctx.image_scaler.scale_down(file.descriptor, size, picture, origin.shown, ctx.check)
    rev = None
    if not origin.is_kept:
        rev = rev_of_status(file.status) if whole is None else ctx.revs.of_bytes(whole)
    return FileImage(
        path=origin.shown,
        media_type=picture.media_type,
        size=size,
        width=picture.width,
        height=picture.height,
        scaled_to=None if sent is whole else f"{sent_as.width} × {sent_as.height}",
        rev=rev,
        _sent=Media(sent_as.media_type, sent),
    )


def _document(
    ctx: ToolContext, origin: Source, file: OpenFile, kind: documents.DocumentKind, max_bytes: int
) -> FileText:
    """The text of a document. It has no rev: it is not changed as a text is."""
    text = ctx.documents.text(file.descriptor, kind, origin.shown, ctx.check)
    content = text if len(text) <= max_bytes else text[: line_cut(text, max_bytes)]
    is_cut = len(content) < len(text)
    return FileText(
        path=origin.shown,
        content=content,
        truncated=True if is_cut else None,
        size=file.status.st_size,
        next_line=_next_line(content) if is_cut else None,
        encoding=f"{kind} as text",
    )


def _next_line(content: str) -> int:
    """The first line that is not all there."""
    return content.count("\n") + 1
