"""What must hold for the head of a request, beyond what httptools asks of it.

httptools reads some heads more loosely than others do: a proxy in between and the daemon must not see two different
requests in the same bytes, so whatever a strict reader refuses is refused here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class HeadProblem(NamedTuple):
    status: int
    message: str


_FIRST_LINE = HeadProblem(400, "the first line must be a method, a target and the version of HTTP, one space apart")
_TARGET = HeadProblem(400, "the target must be a path, or a URL with the host of the Host header")
_CODING = HeadProblem(501, "the only transfer encoding here is chunked")


def head_problem(
    line: bytes | None, method: bytes, target: bytes, version: bytes, headers: Sequence[tuple[bytes, bytes]]
) -> HeadProblem | None:
    """Why a head is refused, or None. `line` has the bytes of its first line, if they are known."""
    if line is not None and not line.startswith(b"%b %b HTTP/%b\r\n" % (method, target, version)):
        return _FIRST_LINE
    if not target.startswith(b"/"):
        scheme, _, rest = target.partition(b"://")
        if scheme not in (b"http", b"https") or (b"host", rest.partition(b"/")[0]) not in headers:
            return _TARGET
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    if codings and (len(codings) > 1 or codings[0].lower() != b"chunked"):
        return _CODING
    return None
