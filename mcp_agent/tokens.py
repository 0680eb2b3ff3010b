"""The token that opens the daemon: made at the first start, kept in a file that only its owner can read."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

VARIABLE = "MCP_AGENT_TOKEN"


class BadToken(Exception):
    """The token cannot be used; the message says why and what to do."""


def from_environment() -> str | None:
    """The token in the environment, taken out of it at once so that no child ever sees it."""
    token = os.environ.pop(VARIABLE, None)
    if token is None:
        return None
    if not _is_usable(token):
        raise BadToken(f"{VARIABLE} must be at least 8 visible characters, without spaces")
    return token


def from_file(path: Path) -> str:
    """The token in the file, made if there is none. Raises BadToken if others could have read it."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return _create(path)
    except OSError as error:
        raise BadToken(f"the token file {path} cannot be read: {_reason(error)}") from None
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise BadToken(f"others can read the token file {path}; run: chmod 600 {path}")
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadToken(f"the token file {path} cannot be read: {error}") from None
    if not _is_usable(token):
        raise BadToken(f"the token file {path} holds no usable token; delete it and a new one is made")
    return token


def _create(path: Path) -> str:
    """A new token in `path`, which appears there with its content: of two daemons that start at once, one makes it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
            _settle(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise BadToken(f"the token file {path} cannot be made: {_reason(error)}") from None
    return from_file(path)


def _settle(temporary: Path, path: Path) -> None:
    """Give `temporary` the name `path`, unless another has taken it by now."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        pass
    except OSError:
        # A file system without hard links.
        temporary.rename(path)


def _is_usable(token: str) -> bool:
    return len(token) >= 8 and all("!" <= character <= "~" for character in token)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
