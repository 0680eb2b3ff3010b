"""Paths as callers write them, made absolute and canonical; and as callers are told them.

Nothing is confined here, with one exception: the daemon's own tokens, journal, artifact store and audit log.

A name that is not UTF-8 has no text of its own, and the wire carries text. Its foreign bytes are told as `\\xNN`, and
`resolve` reads them back, so what a listing shows can be passed to any tool. A real backslash that would be taken
for such an escape is told as `\\x5c`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from tools.errors import Denied, InvalidPath
from tools.mounts import LocalMounts

_ESCAPE = r"x(?:[01][0-9a-f]|5c|7f|[89a-f][0-9a-f])"
_READ = re.compile(rf"\\{_ESCAPE}")
_AMBIGUOUS = re.compile(rf"\\(?={_ESCAPE})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class OpenPaths:
    """Every path of the machine, relative ones counted from `working_directory`, save for the `closed` places."""

    working_directory: Path
    closed: tuple[Path, ...] = ()
    mounts: LocalMounts = field(default_factory=LocalMounts)

    def resolve(self, path: str) -> Path:
        if not path:
            raise InvalidPath("the path is empty", hint="pass '.' for the working directory")
        if "\0" in path:
            raise InvalidPath(f"{path[:80]!r} has a NUL character in it, which no file name can have")
        path = untold(path)
        expanded = os.path.expanduser(path)  # noqa: PTH111 - Path.expanduser raises where there is no such user
        # As text until it is done: each Path on the way would cost more than reading a small file.
        resolved = Path(os.path.normpath(os.path.join(self.working_directory, expanded)))  # noqa: PTH118
        self.check(resolved)
        return resolved

    def real(self, path: Path) -> Path:
        """Where `path` leads when its links are followed; the end need not exist. Raises Denied, InvalidPath."""
        try:
            real = Path(os.path.realpath(path))
        except OSError as error:
            raise InvalidPath(f"{told(path)}: {(error.strerror or str(error)).lower()}") from error
        self.check(real)
        return real

    def check(self, path: Path | str) -> None:
        """Raise Denied if an absolute path is, or is in, a closed place."""
        text = str(path)
        for place in self.closed:
            closed = str(place)
            if text.startswith(closed) and (len(text) == len(closed) or text[len(closed)] == os.sep):
                raise Denied(
                    f"{told(text)} belongs to the daemon itself and is closed to the filesystem tools",
                    hint="what can be undone is read as undo://<id>, what was kept as ax://<domain>/<id>",
                )

    def check_tree(self, path: Path) -> None:
        """Raise Denied if a closed place is at `path`, above it or below it."""
        self.check(path)
        within = self.closed_within(path)
        if within:
            raise Denied(f"{told(path)} holds {told(within[0])}, which belongs to the daemon itself")

    def closed_within(self, folder: Path) -> tuple[Path, ...]:
        """The closed places below `folder`."""
        return tuple(place for place in self.closed if folder in place.parents or folder == place)

    def check_open(self, descriptor: int) -> None:
        """Raise Denied if an open file is in a closed place, whatever links led to it."""
        if not self.closed:
            return
        try:
            self.check(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115 - a Path costs as much as the call
        except OSError:
            # Where there is no /proc, the path was checked before it was opened, and that is all there is.
            return

    def is_local(self, path: Path) -> bool:
        return self.mounts.holds(path)


def told(path: Path | str) -> str:
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
    """A told path with its control characters escaped in the same way, for renderings with one path a line."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", shown)


def untold(path: str) -> str:
    """What `told` was given: the escapes read back."""
    if "\\x" not in path:
        return path
    data = _READ.sub(lambda match: chr(0xDC00 + int(match[0][2:], 16)), path)
    # Lone surrogates stand for bytes; those below 0x80 are written as the characters they are.
    return re.sub(r"[\udc00-\udc7f]", lambda match: chr(ord(match[0]) - 0xDC00), data)
