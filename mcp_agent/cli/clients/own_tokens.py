"""The tokens that `connect` makes: one for each client, named after it, and kept in a file of its own.

The daemon stores only hashes. The file is there for clients that read their token from it, and so that connecting a
client twice changes nothing.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from mcp_agent.config import Config
from mcp_agent.security import auth_tokens
from mcp_agent.storage.audit_log import note_command
from registry.profiles import Form
from registry.user_error import UserError
from tools.files import disk


def token_path(config: Config, name: str) -> Path:
    """Where the token of that client is, or will be."""
    return config.client_tokens_dir / name


def ensure_token(config: Config, name: str, profile: str | None, form: Form = "auto") -> str:
    """The token of the client `name`, made if there is none with that profile. Raises UserError."""
    path = token_path(config, name)
    with disk.folder_lock(config.client_tokens_dir):
        return _ensure(config, path, name, profile, form)


def _ensure(config: Config, path: Path, name: str, profile: str | None, form: Form) -> str:
    known = next((each for each in auth_tokens.clients(config.clients_file) if each.name == name), None)
    if known is not None:
        kept = _read(path)
        if kept is None or not known.is_of(kept):
            raise UserError(
                f"there is a token {name!r} that `connect` did not make; "
                f"`mcp-agent token revoke {name}` makes room for a new one"
            )
        if (known.profile, known.form) == (profile, form):
            return kept
        auth_tokens.revoke(config.clients_file, name)
    token = auth_tokens.create(config.clients_file, name, profile, form)
    note_command(config.audit_dir, "token_created", name=name, profile=profile)
    disk.replace_file(path, f"{token}\n".encode())
    return token


def drop_token(config: Config, name: str) -> bool:
    """Revoke the token that `ensure_token` made. False if there is none."""
    path = token_path(config, name)
    if not path.exists():
        return False
    with disk.folder_lock(config.client_tokens_dir):
        kept = _read(path)
        if kept is None:
            return False
        if any(each.name == name and each.is_of(kept) for each in auth_tokens.clients(config.clients_file)):
            auth_tokens.revoke(config.clients_file, name)
            note_command(config.audit_dir, "token_revoked", name=name)
        path.unlink(missing_ok=True)
        return True


def _read(path: Path) -> str | None:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return disk.read_small_file(path).decode().strip()
    return None
