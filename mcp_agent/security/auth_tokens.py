"""Authentication tokens: one of the owner, and one for each client that has its own profile.

The token of the owner is stored in plain text, in a file that only the owner can read, because people need to look it
up. Of a client token only the hash is stored: it is shown once, when it is created.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from mcp_agent.security.state_folder import mode_if_exposed
from registry.profiles import Form
from registry.user_error import UsageError, UserError
from tools.files import disk
from tools.kit.spelling import did_you_mean

if TYPE_CHECKING:
    from mcp_agent.security.grants import Grants

VARIABLE = "MCP_AGENT_TOKEN"
OWNER = "owner"
_MOST_TOKEN_CHARS = 4_096
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class BadToken(UsageError):
    """A token or a token file cannot be used. The message says why and what to do."""


class ProfileInUse(UserError):
    """A profile cannot be removed, because tokens have it."""


class Principal(Struct, frozen=True):
    """The holder of a token, and the profile that applies; None: the active profile."""

    name: str
    profile: str | None = None
    form: Form = "auto"
    is_owner: bool = False
    # Seconds since 1970; None: the token is valid until it is revoked.
    expires: int | None = None
    # What belongs to the token is found by this: a later token may have the same name. Empty: by the name.
    id: str = ""
    # Where the token is valid: these paths, and what is below them. None of them: everywhere.
    paths: tuple[str, ...] = ()
    # Of a browser: what its login is known by. It ends with the token, and by itself.
    login: str = ""

    @property
    def owner(self) -> str:
        return self.id or self.name

    def may_use(self, path: str) -> bool:
        return not self.paths or any(path == each or path.startswith(f"{each}/") for each in self.paths)

    @property
    def is_expired(self) -> bool:
        return self.expires is not None and time.time() >= self.expires


class ClientToken(Struct, frozen=True):
    """A token for one client, as it is stored. `profile` None: it follows the active profile."""

    name: str
    profile: str | None
    form: Form
    sha256: Annotated[str, Meta(pattern="^[0-9a-fA-F]{64}$")]
    created: int
    expires: int | None = None
    # Stays when the token is rotated. Empty: the token is from before there were ids.
    id: str = ""

    def is_of(self, token: str) -> bool:
        """Whether this is the token itself."""
        return hmac.compare_digest(_hash(token.encode()).hex(), self.sha256)


class ListedToken(Struct, frozen=True):
    """What the owner is shown of a token."""

    name: str
    profile: str | None
    form: Form
    created: int
    expires: int | None
    # The program that was granted it by OAuth; None: it is the token of a client.
    program: str | None = None


class _ClientsFile(Struct, frozen=True):
    """The file of the client tokens."""

    tokens: list[ClientToken]
    version: int = 1


class Tokens:
    """All tokens of one daemon. Call `reload` before the first `identify`."""

    def __init__(
        self, owner_file: Path, clients_file: Path, owner_token: str | None = None, grants: Grants | None = None
    ) -> None:
        """With `owner_token`, which comes from the environment, `owner_file` is not read. `grants`: OAuth is on."""
        self.owner_file = owner_file
        self.clients_file = clients_file
        self.grants = grants
        self._fixed_owner = owner_token
        # By the hash of the token.
        self._accepted: dict[bytes, Principal] = {}
        # Called after each `reload`.
        self.on_reload: Callable[[], object] = lambda: None

    def reload(self) -> set[str]:
        """Read the files. Returns the names whose former token is no longer valid. Raises BadToken."""
        owner = self._fixed_owner or from_file(self.owner_file)
        accepted = {_hash(owner.encode()): Principal(OWNER, is_owner=True)}
        for client in clients(self.clients_file):
            principal = Principal(client.name, client.profile, client.form, expires=client.expires, id=client.id)
            accepted[bytes.fromhex(client.sha256)] = principal
        gone = {principal.name for digest, principal in self._accepted.items() if digest not in accepted}
        if self.grants is not None:
            gone |= self.grants.reload()
        self._accepted = accepted
        self.on_reload()
        return gone

    @property
    def files(self) -> tuple[Path, ...]:
        """What `reload` reads."""
        files = (self.owner_file, self.clients_file)
        return files if self.grants is None else (*files, self.grants.path)

    @property
    def is_owner_fixed(self) -> bool:
        """Whether the owner's token came from the environment: then no file changes it."""
        return self._fixed_owner is not None

    @property
    def principals(self) -> tuple[Principal, ...]:
        """The holders of all valid tokens."""
        granted = () if self.grants is None else self.grants.principals
        return (*self._accepted.values(), *granted)

    def owner(self) -> str:
        return self._fixed_owner or from_file(self.owner_file)

    def owner_digest(self) -> bytes:
        """A hash of the owner's token, from which keys can be made."""
        return next(digest for digest, principal in self._accepted.items() if principal.is_owner)

    def identify(self, token: bytes) -> Principal | None:
        """The holder of this token, unless it has expired.

        Tokens are looked up by their hash, so the time that it takes tells nothing about a token.
        """
        found = self._accepted.get(hashlib.sha256(token).digest())
        if found is None and self.grants is not None:
            return self.grants.identify(token)
        return None if found is None or (found.expires is not None and found.is_expired) else found

    def is_expired(self, token: bytes) -> bool:
        """Whether this is a token of ours that was valid once."""
        found = self._accepted.get(_hash(token))
        if found is None:
            return self.grants is not None and self.grants.is_expired(token)
        return found.is_expired

    def listed(self) -> list[ListedToken]:
        """All tokens but the owner's, as they are stored. Raises BadToken."""
        found = [
            ListedToken(each.name, each.profile, each.form, each.created, each.expires)
            for each in clients(self.clients_file)
        ]
        return found if self.grants is None else [*found, *self.grants.listed()]

    def revoke(self, name: str) -> None:
        """Delete the token of `name`, or end the grant. Raises BadToken if there is neither."""
        if self.grants is None or not self.grants.revoke(name):
            find(self.listed(), name)
            revoke(self.clients_file, name)

    def check_unused(self, profile: str) -> None:
        """Raise ProfileInUse if a token has that profile: without it, its holder would be left with nothing."""
        if holders := ", ".join(each.name for each in self.listed() if each.profile == profile):
            advice = "revoke the token first: mcp-agent token revoke NAME"
            raise ProfileInUse(f"the profile {profile} is that of the token {holders}; {advice}")

    def expired_names(self) -> set[str]:
        return {principal.name for principal in self.principals if principal.is_expired}

    def next_expiry(self) -> int | None:
        """When the next token expires, in seconds since 1970."""
        return min((each.expires for each in self.principals if each.expires and not each.is_expired), default=None)


def from_environment() -> str | None:
    """The token in the environment. The variable is removed, so that no child process sees it. Raises BadToken."""
    token = os.environ.pop(VARIABLE, None)
    if token is None:
        return None
    if not _is_usable(token):
        raise BadToken(f"{VARIABLE} must be 8 to {_MOST_TOKEN_CHARS} visible characters, without spaces")
    return token


def from_file(path: Path) -> str:
    """The token in the file, which is created if it does not exist. Raises BadToken if others can read the file."""
    try:
        path.stat()
    except FileNotFoundError:
        return _create_owner_token(path)
    except OSError as error:
        raise BadToken(f"the token file {path} cannot be read: {_reason(error)}") from None
    return from_existing_file(path)


def from_existing_file(path: Path) -> str:
    """The token in the file. Raises BadToken if there is none, or if others can read it."""
    try:
        token = disk.read_small_file(path).decode().strip()
    except OSError as error:
        raise BadToken(f"the token file {path} cannot be read: {_reason(error)}") from None
    except UnicodeDecodeError as error:
        raise BadToken(f"the token file {path} cannot be read: {error}") from None
    if mode_if_exposed(path) is not None:
        raise BadToken(f"others can read the token file {path}; run: chmod 600 {path}")
    if not _is_usable(token):
        raise BadToken(f"the token file {path} has no usable token; delete it, and a new one is created")
    return token


def rotate_owner(path: Path) -> str:
    """Replace the token of the owner by a new one, and return it."""
    token = _new_token()
    _write(path, f"{token}\n".encode())
    return token


def clients(path: Path) -> list[ClientToken]:
    """The client tokens in the file. Raises BadToken if it cannot be read."""
    try:
        data = disk.read_small_file(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BadToken(f"{path} cannot be read: {_reason(error)}") from None
    try:
        return msgspec.json.decode(data, type=_ClientsFile).tokens
    except ValueError as error:
        raise BadToken(f"{path} is damaged ({error}); repair it, or delete it and create the tokens again") from None


def create(path: Path, name: str, profile: str | None, form: Form, lifetime_s: int | None = None) -> str:
    """Create a token for the client `name` and return it. It cannot be read again later. Raises BadToken.

    With `profile` None it follows the active profile, as the owner's does. It expires after `lifetime_s`, if given.
    """
    if not _NAME.fullmatch(name) or name == OWNER:
        raise BadToken(f"{name!r} cannot name a token: use letters, digits, dots and dashes, and not {OWNER!r}")
    with disk.folder_lock(path.parent):
        known = clients(path)
        if any(client.name == name for client in known):
            raise BadToken(f"there is a token {name!r} already; rotate or revoke it, or choose another name")
        return _add(path, known, name, profile, form, lifetime_s, f"{name}#{secrets.token_hex(8)}")


def revoke(path: Path, name: str) -> None:
    """Delete the token of `name`. Raises BadToken if there is none."""
    with disk.folder_lock(path.parent):
        known = clients(path)
        find(known, name)
        _save(path, [client for client in known if client.name != name])


def rotate(path: Path, name: str) -> str:
    """Replace the token of `name` by a new one with the same profile, and return it. Raises BadToken.

    One that expires is given as long as the old one was.
    """
    with disk.folder_lock(path.parent):
        known = clients(path)
        old = find(known, name)
        lifetime_s = None if old.expires is None else old.expires - old.created
        others = [client for client in known if client is not old]
        return _add(path, others, name, old.profile, old.form, lifetime_s, old.id)


def _add(
    path: Path,
    known: list[ClientToken],
    name: str,
    profile: str | None,
    form: Form,
    lifetime_s: int | None,
    token_id: str,
) -> str:
    token, now = _new_token(), int(time.time())
    expires = None if lifetime_s is None else now + lifetime_s
    _save(path, [*known, ClientToken(name, profile, form, _hash(token.encode()).hex(), now, expires, token_id)])
    return token


def _save(path: Path, tokens: list[ClientToken]) -> None:
    _write(path, msgspec.json.format(msgspec.json.encode(_ClientsFile(tokens))))


def _write(path: Path, data: bytes) -> None:
    try:
        disk.replace_file(path, data)
    except OSError as error:
        raise BadToken(f"{path} cannot be written: {_reason(error)}; nothing was changed") from None


_Named = TypeVar("_Named", ClientToken, ListedToken)


def find(known: list[_Named], name: str) -> _Named:
    """The token of that name. Raises BadToken."""
    for client in known:
        if client.name == name:
            return client
    names = [client.name for client in known]
    hint = did_you_mean(name, names) or f"; there are: {', '.join(names) or 'none'}"
    raise BadToken(f"there is no token {name!r}{hint}")


def _create_owner_token(path: Path) -> str:
    """Create the file and return its token. If two daemons start at once, both use the token of the first."""
    try:
        with disk.folder_lock(path.parent):
            if not path.exists():
                rotate_owner(path)
    except OSError as error:
        raise BadToken(f"the token file {path} cannot be created: {_reason(error)}") from None
    return from_file(path)


def _new_token() -> str:
    return secrets.token_urlsafe(32)


def _hash(token: bytes) -> bytes:
    # Our tokens are long and random, so a fast hash is safe. A slow one would cost time in every request.
    return hashlib.sha256(token).digest()


def _is_usable(token: str) -> bool:
    return 8 <= len(token) <= _MOST_TOKEN_CHARS and all("!" <= character <= "~" for character in token)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
