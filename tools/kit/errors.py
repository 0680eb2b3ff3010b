"""Every error that a caller can correct, and its code.

    ToolError
    ├── InvalidParams      INVALID_PARAMS      the arguments do not fit the schema
    ├── ToolDisabled       TOOL_DISABLED       the owner has switched the tool off
    ├── NotFound           NOT_FOUND           nothing is there
    ├── NotAFile           NOT_A_FILE          a folder, where a file is needed
    ├── NotADirectory      NOT_A_DIRECTORY     a file, where a folder is needed
    ├── IsBinary           IS_BINARY           a binary file, where text is needed
    ├── IsSpecial          IS_SPECIAL          a pipe, a socket or a device, which is never opened
    ├── InvalidPath        INVALID_PATH        no file can have that name
    ├── InvalidPattern     INVALID_PATTERN     a regular expression or a glob that cannot be used
    ├── OutOfRange         OUT_OF_RANGE        a line or an offset past the end
    ├── AlreadyExists      ALREADY_EXISTS      something is there, where nothing may be
    ├── NotEmpty           NOT_EMPTY           a folder with something in it
    ├── NoMatch            NO_MATCH            the text to change is not in the file
    ├── CountMismatch      COUNT_MISMATCH      the text to change occurs more or fewer times than expected
    ├── NotUndoable        NOT_UNDOABLE        a deletion that could not be undone, and `permanent` was not given
    ├── StaleRev           STALE_REV           the file has changed since the caller read it
    ├── NotEncodable       NOT_ENCODABLE       the encoding of the file cannot represent the text
    ├── Denied             DENIED              a deny rule forbids it, or the file is the daemon's own
    ├── ApprovalPending    APPROVAL_PENDING    the owner was asked to approve the call and has not answered yet
    ├── PermissionDenied   PERMISSION_DENIED   the operating system refuses access
    ├── IoError            IO_ERROR            any other error of the operating system
    ├── NotInitialized     NOT_INITIALIZED     another tool must be called first
    ├── BlockedSubcommand  BLOCKED_SUBCOMMAND  the owner has blocked this subcommand of a wrapped program
    ├── UpstreamFailed     UPSTREAM_FAILED     a mounted server answered with an error
    ├── UpstreamUnavailable UPSTREAM_UNAVAILABLE  a mounted server does not run or does not answer
    ├── BoxNeeded          BOX_NEEDED          several boxes of the fleet fit, and the call names none
    ├── BoxUnreachable     BOX_UNREACHABLE     a box of the fleet does not answer; `may_have_run` says whether it began
    ├── OutcomeUnknown     OUTCOME_UNKNOWN     a box was restarted during the call, which may have run
    ├── SessionNotFound    SESSION_NOT_FOUND   no session has that id, or it ended too long ago
    ├── SessionEnded       SESSION_ENDED       the session has ended, or has closed its input
    ├── SessionLimit       SESSION_LIMIT       the limit of running sessions is reached
    ├── Busy               BUSY                too much work of this kind is asked for at once
    ├── Timeout            TIMEOUT             the call took longer than its deadline
    ├── TooLarge           TOO_LARGE           the result does not fit one message
    └── InternalError      INTERNAL_ERROR      our fault; the log has the call id

The message says what happened, in the caller's terms; the hint says what to do next.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from typing import Any

# A call with thousands of bad arguments is answered with the first of them.
_MOST_ISSUES = 500
_MOST_PATH = 200
_MOST_MESSAGE = 50_000


class ToolError(Exception):
    """An error that the caller can correct. `fields` are put beside `error` in the result."""

    code: str
    # The id of the deny rule that caused it, for the audit log.
    rule: str | None = None

    def __init__(self, message: str, *, hint: str | None = None, fields: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = fields or {}

    def as_object(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.hint is not None:
            error["hint"] = self.hint
        return {**self.fields, "error": error}

    @property
    def facts(self) -> dict[str, Any]:
        """What the log says about it. `fields` are left out, because they may have the output of a command."""
        return {"code": self.code, "message": self.message}

    @property
    def message_with_hint(self) -> str:
        """For an error that has no field for the hint."""
        return self.message if self.hint is None else f"{self.message} ({self.hint})"

    def summary(self) -> str:
        """The error in one line, for short results."""
        return f"{self.code}: {self.message}"

    @property
    def is_text(self) -> bool:
        """Whether the rendering is complete, so that it can be stored in place of the object."""
        return False

    def render(self) -> str:
        """The error as a model reads it: the message, the hint on the next line, then fields of several lines."""
        shown = [value for value in self.fields.values() if isinstance(value, str) and "\n" in value]
        return "\n".join([*self._head(), *([self.hint] if self.hint else []), *shown])

    def _head(self) -> Iterator[str]:
        """The first line of the rendering; before it, how the arguments of the call were taken."""
        if notes := self.fields.get("notes"):
            yield f"[{'; '.join(notes)}]"
        yield f"[{self.code}] {self.message}"


class InvalidParams(ToolError):
    """The arguments do not fit. `issues` has every problem, up to a limit, sorted by path and code."""

    code = "INVALID_PARAMS"

    def __init__(self, message: str, *, issues: list[dict[str, str]]) -> None:
        super().__init__(message if len(message) <= _MOST_MESSAGE else f"{message[:_MOST_MESSAGE]}…")
        self.issues = [{**issue, "path": issue["path"][:_MOST_PATH]} for issue in issues[:_MOST_ISSUES]]

    def as_object(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "message": self.message, "issues": self.issues}}


class ToolDisabled(ToolError):
    code = "TOOL_DISABLED"


class NotFound(ToolError):
    code = "NOT_FOUND"


class NotAFile(ToolError):
    code = "NOT_A_FILE"


class NotADirectory(ToolError):
    code = "NOT_A_DIRECTORY"


class IsBinary(ToolError):
    code = "IS_BINARY"


class IsSpecial(ToolError):
    code = "IS_SPECIAL"


class InvalidPath(ToolError):
    code = "INVALID_PATH"


class InvalidPattern(ToolError):
    code = "INVALID_PATTERN"


class OutOfRange(ToolError):
    code = "OUT_OF_RANGE"


class AlreadyExists(ToolError):
    code = "ALREADY_EXISTS"


class NotEmpty(ToolError):
    code = "NOT_EMPTY"


class NoMatch(ToolError):
    code = "NO_MATCH"


class CountMismatch(ToolError):
    code = "COUNT_MISMATCH"


class NotUndoable(ToolError):
    code = "NOT_UNDOABLE"


class StaleRev(ToolError):
    code = "STALE_REV"


class NotEncodable(ToolError):
    code = "NOT_ENCODABLE"


class Denied(ToolError):
    """`rule` is the id of the deny rule; None if the file is the daemon's own."""

    code = "DENIED"

    def __init__(self, message: str, *, hint: str | None = None, rule: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.rule = rule

    def as_object(self) -> dict[str, Any]:
        found = super().as_object()
        return found if self.rule is None else {**found, "error": {**found["error"], "rule": self.rule}}


class ApprovalPending(ToolError):
    """Nothing has run. With `next_round`, the client itself is asked to send the call again, and no model hears of
    it."""

    code = "APPROVAL_PENDING"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        fields: Mapping[str, Any] | None = None,
        next_round: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint, fields=fields)
        self.next_round = next_round


class PermissionDenied(ToolError):
    code = "PERMISSION_DENIED"


class IoError(ToolError):
    code = "IO_ERROR"


class UpstreamFailed(ToolError):
    code = "UPSTREAM_FAILED"


class UpstreamUnavailable(ToolError):
    """A mounted server does not run. `stderr` has the last lines that it wrote."""

    code = "UPSTREAM_UNAVAILABLE"

    def __init__(self, message: str, *, hint: str | None = None, stderr: str = "") -> None:
        super().__init__(message, hint=hint, fields={"stderr": stderr} if stderr else None)


class BoxNeeded(ToolError):
    code = "BOX_NEEDED"


class BoxUnreachable(ToolError):
    """`may_have_run` is false where the box cannot have had the call: then it is safe to call again."""

    code = "BOX_UNREACHABLE"

    def __init__(self, message: str, *, hint: str | None = None, may_have_run: bool) -> None:
        super().__init__(message, hint=hint, fields={"may_have_run": may_have_run})
        self.may_have_run = may_have_run


class OutcomeUnknown(ToolError):
    code = "OUTCOME_UNKNOWN"


class NotInitialized(ToolError):
    code = "NOT_INITIALIZED"


class BlockedSubcommand(ToolError):
    code = "BLOCKED_SUBCOMMAND"


class SessionNotFound(ToolError):
    code = "SESSION_NOT_FOUND"


class SessionEnded(ToolError):
    code = "SESSION_ENDED"


class SessionLimit(ToolError):
    code = "SESSION_LIMIT"


class Busy(ToolError):
    code = "BUSY"


class Timeout(ToolError):
    code = "TIMEOUT"


class TooLarge(ToolError):
    code = "TOO_LARGE"


class InternalError(ToolError):
    code = "INTERNAL_ERROR"


def replaced_meanwhile(path: str) -> IoError:
    """The error for a path that, or whose folder, became a symbolic link after the check."""
    return IoError(f"{path} was replaced while it was being opened", hint="call again")


def from_os_error(error: OSError, path: str) -> ToolError:
    """The ToolError for an error of the operating system about `path`."""
    reason = (error.strerror or str(error)).lower()
    match error.errno:
        case errno.ENOENT:
            return NotFound(f"{path} does not exist", hint="list the folder it should be in with fs_list")
        case errno.EACCES | errno.EPERM:
            return PermissionDenied(f"{path}: {reason}", hint="the daemon runs as another user than the file's owner")
        case errno.ENOTDIR:
            return NotADirectory(f"{path}: a part of this path is a file, not a folder")
        case errno.EISDIR:
            return NotAFile(f"{path} is a folder", hint="list it with fs_list")
        case errno.ENAMETOOLONG:
            return InvalidPath(f"{path[:80]}…: {reason}")
        case errno.ELOOP:
            return InvalidPath(f"{path}: its symbolic links lead in a circle")
        case errno.ENOSPC | errno.EDQUOT:
            return IoError(f"{path}: {reason}; nothing was changed", hint="free some space on that disk first")
        case errno.EROFS:
            return PermissionDenied(f"{path}: {reason}")
        case _:
            return IoError(f"{path}: {reason}")
