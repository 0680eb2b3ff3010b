"""Grants: what the owner has allowed clients of OAuth, each with a name, a profile and an expiry like a client token.

They are in a file of their own. A client gets new tokens every hour, and its streams live on: they end with the grant.
Of tokens only hashes are stored. The daemon and the commands change the file under the lock of its folder, and whoever
has changed it puts it into force by `Tokens.reload`. The daemon does so on the event loop: a client asks once an hour,
and whether a token is used for the first time must be decided in one step.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from mcp_agent.security.auth_tokens import BadToken, ListedToken, Principal
from tools.files import disk

# No name of a client token ends so: each is told from all others by its name alone.
NAME_END = "@oauth"
ACCESS_S = 3600
# A refresh token that was replaced within this time is taken once more: its answer was lost, or two workers share it.
GRACE_S = 60
_MOST_KEPT = 20


class ClientGrant(Struct, frozen=True):
    """What one client may do. `client` is its id in OAuth, and `program` what the owner was told that it is."""

    id: str
    name: str
    client: str
    program: str
    profile: str
    resource: str
    # Where its tokens are valid: these paths, and what is below them. None of them: everywhere.
    paths: tuple[str, ...]
    created: int
    expires: int | None
    # By the hashes of access tokens, when each expires. A refresh does not end the one before.
    access: dict[str, int] = field(default_factory=dict)
    # By the hashes of refresh tokens, the generation of each. One that is not of the newest was replaced.
    refresh: dict[str, int] = field(default_factory=dict)
    generation: int = 0
    rotated: int = 0

    @property
    def is_expired(self) -> bool:
        return self.expires is not None and self.expires <= time.time()

    @property
    def principal(self) -> Principal:
        # It expires with the grant and not with its token, and so do its streams.
        token_id = f"{self.name}#{self.id}"
        return Principal(self.name, self.profile, expires=self.expires, id=token_id, paths=self.paths)


class Issued(Struct, frozen=True):
    """A new pair of tokens. It is in one answer and nowhere else."""

    access_token: str
    refresh_token: str
    expires_in: int


class RefusedGrant(Exception):
    """A token is not valid, or no longer. `ended` is the grant that was ended for it: somebody has copied the token."""

    def __init__(self, message: str, ended: ClientGrant | None = None) -> None:
        super().__init__(message)
        self.ended = ended


class WrongResource(Exception):
    """A client asks for tokens for another resource than its grant is for."""


class _GrantsFile(Struct):
    # Signs the ids of clients that register themselves.
    key: str
    grants: list[ClientGrant]
    version: int = 1


class Grants:
    """The grants that are in force, and every change of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._key = b""
        self._all: tuple[ClientGrant, ...] = ()
        self._by_access: dict[str, ClientGrant] = {}
        self._by_refresh: dict[str, ClientGrant] = {}

    def reload(self) -> set[str]:
        """Read the file. Returns the names of the grants that are gone. Raises BadToken."""
        before = self._all
        self._all = tuple(_stored(self.path))
        self._by_access = {hashed: each for each in self._all for hashed in each.access}
        self._by_refresh = {hashed: each for each in self._all for hashed in each.refresh}
        ids = {each.id for each in self._all}
        return {each.name for each in before if each.id not in ids}

    def listed(self) -> list[ListedToken]:
        """The grants as they are stored. Raises BadToken."""
        return [
            ListedToken(each.name, each.profile, "auto", each.created, each.expires, each.program)
            for each in sorted(_stored(self.path), key=lambda each: each.created)
        ]

    @property
    def principals(self) -> tuple[Principal, ...]:
        return tuple(each.principal for each in self._all)

    def identify(self, token: bytes) -> Principal | None:
        hashed = hashlib.sha256(token).hexdigest()
        found = self._by_access.get(hashed)
        if found is None or found.access[hashed] <= time.time() or found.is_expired:
            return None
        return found.principal

    def is_expired(self, token: bytes) -> bool:
        """Whether this is a token of ours that was valid once."""
        return hashlib.sha256(token).hexdigest() in self._by_access and self.identify(token) is None

    def key(self) -> bytes:
        """What signs the ids of clients. It is made at the first need."""
        if not self._key:
            with _changing(self.path) as file:
                self._key = base64.b64decode(file.key)
        return self._key

    def add(self, grant: ClientGrant) -> Issued:
        with _changing(self.path) as file:
            grant, issued = _issue(grant, rotates=True)
            file.grants.append(grant)
        return issued

    def refresh(self, token: str, client: str, resource: str | None = None) -> Issued:
        """A new pair for a refresh token, where `resource` is absent or that of the grant.

        Raises RefusedGrant and WrongResource.
        """
        hashed = _hash(token)
        if hashed not in self._by_refresh:
            # Without a look at the disk: anybody may try.
            raise RefusedGrant("the refresh token is not valid, or no longer")
        with _changing(self.path) as file:
            found = next((each for each in file.grants if hashed in each.refresh and each.client == client), None)
            if found is None or found.is_expired:
                raise RefusedGrant("the refresh token is not valid, or no longer")
            if resource is not None and resource.rstrip("/").lower() != found.resource.rstrip("/").lower():
                raise WrongResource
            age = found.generation - found.refresh[hashed]
            is_late = age > 1 or (age == 1 and time.time() - found.rotated > GRACE_S)
            file.grants.remove(found)
            if not is_late:
                grant, issued = _issue(found, rotates=age == 0)
                file.grants.append(grant)
        if is_late:
            raise RefusedGrant("the refresh token was used before, so everything that came of it is revoked", found)
        return issued

    def end(self, grant_id: str) -> ClientGrant | None:
        """End a grant, and give what it was; None if it has ended."""
        with _changing(self.path) as file:
            found = next((each for each in file.grants if each.id == grant_id), None)
            if found is not None:
                file.grants.remove(found)
        return found

    def revoke(self, name: str) -> bool:
        """End the grant of that name; False if there is none. Raises BadToken."""
        found = next((each for each in _stored(self.path) if each.name == name), None)
        return found is not None and self.end(found.id) is not None

    def end_by_token(self, token: str, client: str) -> ClientGrant | None:
        """End the grant of one of its tokens, for the client that it was made for."""
        hashed = _hash(token)
        found = self._by_refresh.get(hashed) or self._by_access.get(hashed)
        return self.end(found.id) if found is not None and client in ("", found.client) else None


def _issue(grant: ClientGrant, *, rotates: bool) -> tuple[ClientGrant, Issued]:
    """Give a grant a new pair of tokens. Unless it `rotates`, the newest refresh token stays valid beside the new."""
    now = int(time.time())
    access, refresh = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    lifetime_s = ACCESS_S if grant.expires is None else max(1, min(ACCESS_S, grant.expires - now))
    generation = grant.generation + rotates
    valid = {hashed: until for hashed, until in grant.access.items() if until > now}
    changed = replace(
        grant,
        access=_newest({**valid, _hash(access): now + lifetime_s}),
        refresh=_newest({**grant.refresh, _hash(refresh): generation}),
        generation=generation,
        rotated=now if rotates else grant.rotated,
    )
    return changed, Issued(access, refresh, lifetime_s)


def _newest(kept: dict[str, int]) -> dict[str, int]:
    return dict(list(kept.items())[-_MOST_KEPT:])


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[_GrantsFile]:
    """The file, which is written again where the block has changed it. Raises BadToken."""
    with disk.folder_lock(path.parent):
        file = _read(path)
        before = None if file is None else msgspec.json.encode(file)
        file = file or _GrantsFile(base64.b64encode(secrets.token_bytes(32)).decode(), [])
        yield file
        file.grants = [each for each in file.grants if not each.is_expired]
        if msgspec.json.encode(file) == before:
            return
        try:
            disk.replace_file(path, msgspec.json.format(msgspec.json.encode(file)))
        except OSError as error:
            raise BadToken(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from None


def _stored(path: Path) -> list[ClientGrant]:
    """The grants that have not expired."""
    return [] if (file := _read(path)) is None else [each for each in file.grants if not each.is_expired]


def _read(path: Path) -> _GrantsFile | None:
    try:
        return msgspec.json.decode(disk.read_small_file(path), type=_GrantsFile)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadToken(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:
        raise BadToken(f"{path} is damaged ({error}); repair it, or delete it and connect the clients again") from None


def _hash(token: str) -> str:
    # Our tokens are long and random, so a fast hash is safe.
    return hashlib.sha256(token.encode()).hexdigest()
