"""Regular expressions for globs that match a path in time linear in its length, whatever the glob.

A part of a glob (`a*b`) fits exactly one name of a path, and only `*` and `**` fit a varying length. So the leftmost
place where the text after a `*`, or the parts after a `**`, can stand is always a right one: nothing that was matched
has to be tried again. Atomic groups (`(?>…)`) say so to `re`, which would otherwise backtrack for hours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tools.kit.errors import InvalidPattern

_FOLDERS = "(?:[^/]+/)*?"


def path_pattern(parts: Sequence[str], *, end: str = r"\Z") -> str:
    """A regex for the relative paths that fit the parts of a glob. `**` is any number of folders; last, all below.

    `end` is what follows the path. Compile it with DOTALL, and use `match`. Raises InvalidPattern.
    """
    blocks: list[list[str]] = [[]]
    for part in parts:
        if part == "**":
            blocks.append([])
        else:
            blocks[-1].append(name_pattern(part))
    first, *heads = ["/".join(names) for names in blocks]
    if not heads:
        return first + end
    last = heads.pop()
    pattern = f"{first}/" if first else ""
    pattern += "".join(f"(?>{_FOLDERS}{head}/)" for head in heads if head)
    return pattern + (f"(?>{_FOLDERS}{last}{end})" if last else f".+{end}")


def name_pattern(part: str) -> str:
    """A regex for the names that one part of a glob fits; a slash or the end must follow. Raises InvalidPattern."""
    pieces = [""]
    at = 0
    while at < len(part):
        letter = part[at]
        at += 1
        if letter == "*":
            if len(pieces) == 1 or pieces[-1]:
                pieces.append("")
        elif letter == "?":
            pieces[-1] += "[^/]"
        elif letter == "[":
            end = part.find("]", at + 1 + (part[at : at + 1] in ("!", "^")))
            if end == -1:
                raise InvalidPattern(f"the glob {part[:80]!r} has a [ without its ]")
            pieces[-1] += _one_of(part[at:end])
            at = end + 1
        elif letter == "\\":
            if at == len(part):
                raise InvalidPattern(f"the glob {part[-80:]!r} ends in a backslash, which quotes nothing")
            pieces[-1] += re.escape(part[at])
            at += 1
        else:
            pieces[-1] += re.escape(letter)
    first, *between = pieces
    if not between:
        return first
    last = between.pop()
    return first + "".join(f"(?>[^/]*?{piece})" for piece in between) + f"(?>[^/]*?{last}(?![^/]))"


def _one_of(inside: str) -> str:
    """A class of characters out of what stands between brackets."""
    is_negated = inside.startswith(("!", "^"))
    letters = inside[1:] if is_negated else inside
    body, at = "", 0
    while at < len(letters):
        if letters[at + 1 : at + 2] == "-" and at + 2 < len(letters):
            first, last = letters[at], letters[at + 2]
            if first > last:
                raise InvalidPattern(f"the range {first}-{last} in a glob goes backwards")
            body += f"{re.escape(first)}-{re.escape(last)}"
            at += 3
        else:
            body += re.escape(letters[at])
            at += 1
    return f"[^/{body}]" if is_negated else f"(?!/)[{body}]"
