"""Patches as the clients of OpenAI's models write them: `*** Begin Patch`, then files with their hunks."""

from __future__ import annotations

import re

from tools.filesystem.patch.hunks import FileChange, Hunk, malformed

_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_ADD, _DELETE, _UPDATE, _MOVE = "*** Add File:", "*** Delete File:", "*** Update File:", "*** Move to:"
_HEADERS = (_ADD, _DELETE, _UPDATE, _END)
_ENVIRONMENT = "*** Environment ID:"
_RANGE = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@ ?(.*)")


def is_v4a(text: str) -> bool:
    return any(line.strip().startswith((_BEGIN, _ADD, _DELETE, _UPDATE)) for line in text.split("\n", 3)[:3])


def parse_v4a(text: str) -> list[FileChange]:
    """The files of a patch. Raises InvalidParams."""
    lines = text.rstrip().split("\n")
    first, end = 0, len(lines)
    if lines[0].strip() == _BEGIN:
        first = 1
        if lines[-1].strip() != _END:
            raise malformed(end, f"the last line is not {_END!r}")
        end -= 1
    elif lines[-1].strip() == _END:
        end -= 1
    if first < end and lines[first].strip().startswith(_ENVIRONMENT):
        first += 1
    changes: list[FileChange] = []
    while first < end:
        if not lines[first].strip():
            first += 1
            continue
        change, first = _parse_file(lines, first, end)
        changes.append(change)
    if not changes:
        raise malformed(len(lines), "it changes no file")
    return changes


def _parse_file(lines: list[str], first: int, end: int) -> tuple[FileChange, int]:
    header = lines[first].strip()
    marker = next((each for each in (_ADD, _DELETE, _UPDATE) if header.startswith(each)), None)
    if marker is None:
        raise malformed(first + 1, f"{header[:60]!r} is none of {_ADD!r}, {_UPDATE!r} and {_DELETE!r}")
    path = header.removeprefix(marker).strip()
    if not path:
        raise malformed(first + 1, f"{marker!r} needs a path")
    if marker == _DELETE:
        return FileChange("delete", path), first + 1
    if marker == _ADD:
        return _parse_added(path, lines, first + 1, end)
    change = FileChange("update", path)
    at = first + 1
    if at < end and lines[at].strip().startswith(_MOVE):
        change.to = lines[at].strip().removeprefix(_MOVE).strip()
        if not change.to:
            raise malformed(at + 1, f"{_MOVE!r} needs a path")
        at += 1
    at = parse_hunks(lines, at, end, change)
    if not change.hunks and change.to is None:
        raise malformed(first + 1, f"{path} has no hunk")
    return change, at


def _parse_added(path: str, lines: list[str], first: int, end: int) -> tuple[FileChange, int]:
    at = first
    while at < end and lines[at].startswith("+"):
        at += 1
    if at < end and lines[at].strip() and not lines[at].strip().startswith(_HEADERS):
        raise malformed(at + 1, "every line of a new file begins with '+'")
    return FileChange("add", path, hunks=[Hunk(new=[line[1:] for line in lines[first:at]])]), at


def parse_hunks(lines: list[str], first: int, end: int, change: FileChange) -> int:
    """Read hunks up to the next header; gives its line."""
    hunk: Hunk | None = None
    has_body = is_closed = False
    # The next line that is not empty.
    following = first
    for at in range(first, end):
        line = lines[at]
        if following <= at and not line:
            following = next((each for each in range(at, end) if lines[each].strip()), end)
        if line.startswith(_HEADERS):
            _close(hunk, has_body, at)
            return at
        if line.strip() == _END_OF_FILE and not line.startswith(" "):
            if hunk is None:
                raise malformed(at + 1, "there is no hunk before it")
            hunk.is_at_end = is_closed = True
        elif line.startswith("@@"):
            if hunk is None or has_body:
                _close(hunk, has_body, at)
                hunk, has_body, is_closed = Hunk(), False, False
                change.hunks.append(hunk)
            ranges = _RANGE.fullmatch(line.rstrip())
            anchor = ranges[2] if ranges else line[2:].removeprefix(" ").removesuffix(" @@").rstrip()
            hunk.anchors += [anchor] if anchor.strip() else []
            hunk.line = int(ranges[1]) if ranges else hunk.line
        elif not line.strip() and (
            hunk is None or is_closed or _only_separates(line, lines[following] if following < end else "@@")
        ):
            continue
        else:
            if line[:1] not in ("", " ", "+", "-"):
                raise malformed(at + 1, f"a line of a hunk begins with ' ', '+' or '-', not {line[:20]!r}")
            if hunk is None or is_closed:
                hunk, is_closed = Hunk(), False
                change.hunks.append(hunk)
            has_body = True
            hunk.old += [line[1:]] if line[:1] != "+" else []
            hunk.new += [line[1:]] if line[:1] != "-" else []
    _close(hunk, has_body, end)
    return end


def _only_separates(line: str, following: str) -> bool:
    """Whether an empty line only separates a hunk from what follows."""
    return not line and following.startswith(("@@", *_HEADERS))


def _close(hunk: Hunk | None, has_body: bool, at: int) -> None:
    if hunk is not None and not has_body:
        raise malformed(at, "a hunk without lines")
