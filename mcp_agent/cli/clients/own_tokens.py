"""The tokens that `connect` makes: one for each client, named after it, and kept in a file of its own.

The daemon stores only hashes. The file is there for clients that read their token from it, and so that connecting a
client twice changes nothing.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from mcp_agent.config import Config
from mcp_agent.security import auth_tokens
from mcp_agent.security.auth_tokens import ClientToken
from mcp_agent.storage.audit_log import note_command
from registry.profiles import Form
from registry.user_error import UserError
from tools.files import disk


def token_path(config: Config, name: str) -> Path:
    """Where the token of that client is, or will be."""
    return config.client_tokens_dir / name


def free_name(config: Config, name: str) -> str:
    """`name`, or one made of it where there is a token of that name that `connect` did not make."""
    other = f"{name}-connect"
    is_taken = _find(config, name) is not None and _read(token_path(config, name)) is None
    return other if is_taken or token_path(config, other).exists() else name


def valid_token(config: Config, name: str, profile: str | None, form: Form = "auto") -> str | None:
    """The token of the client `name` with that profile; None if there is none that is still accepted."""
    kept, known = _read(token_path(config, name)), _find(config, name)
    if kept is None or known is None or not known.is_of(kept):
        return None
    return kept if (known.profile, known.form) == (profile, form) else None


def ensure_token(config: Config, name: str, profile: str | None, form: Form = "auto") -> str:
    """The token of the client `name`, made if there is none with that profile. Raises UserError."""
    if (token := valid_token(config, name, profile, form)) is not None:
        return token
    path = token_path(config, name)
    if _find(config, name) is not None:
        if _read(path) is None:
            raise UserError(
                f"there is a token {name!r} that `connect` did not make; "
                f"`mcp-agent token revoke {name}` makes room for a new one"
            )
        auth_tokens.revoke(config.clients_file, name)
    token = auth_tokens.create(config.clients_file, name, profile, form)
    note_command(config.audit_dir, "token_created", name=name, profile=profile)
    disk.replace_file(path, f"{token}\n".encode())
    return token


def renew_token(config: Config, name: str, token: str) -> bool:
    """Keep the new token of a client whose old one was kept. False if none was."""
    path = token_path(config, name)
    if _read(path) is None:
        return False
    disk.replace_file(path, f"{token}\n".encode())
    return True


def drop_token(config: Config, name: str) -> bool:
    """Revoke the token that `ensure_token` made. False if there is none."""
    path = token_path(config, name)
    kept = _read(path)
    if kept is None:
        return False
    if any(each.name == name and each.is_of(kept) for each in auth_tokens.clients(config.clients_file)):
        auth_tokens.revoke(config.clients_file, name)
        note_command(config.audit_dir, "token_revoked", name=name)
    path.unlink(missing_ok=True)
    return True


def _find(config: Config, name: str) -> ClientToken | None:
    return next((each for each in auth_tokens.clients(config.clients_file) if each.name == name), None)


def _read(path: Path) -> str | None:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return disk.read_small_file(path).decode().strip()
    return None
