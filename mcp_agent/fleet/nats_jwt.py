"""Keys and tokens of NATS: an operator vouches for accounts, an account for users, and a server believes the operator.

The format is that of the server: JWTs signed with Ed25519 keys in the text form of nkeys. A scoped signing key gives
all users that it signs one set of permissions, with the name of the user filled in by the server.
"""

from __future__ import annotations

import base64
import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import orjson
from msgspec import Struct

Kind = Literal["operator", "account", "user"]

_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
_UNLIMITED = -1
_USER_LIMITS = {"subs": _UNLIMITED, "data": _UNLIMITED, "payload": _UNLIMITED}


class Key(Struct, frozen=True):
    """A key pair. The seed is the secret."""

    seed: str
    public: str

    def sign(self, data: bytes) -> bytes:
        import nkeys

        signature: bytes = nkeys.from_seed(bytearray(self.seed.encode())).sign(data)
        return signature


def new_key(kind: Kind) -> Key:
    import nkeys

    prefix = {
        "operator": nkeys.PREFIX_BYTE_OPERATOR,
        "account": nkeys.PREFIX_BYTE_ACCOUNT,
        "user": nkeys.PREFIX_BYTE_USER,
    }[kind]
    return key_of(bytes(nkeys.encode_seed(os.urandom(32), prefix)).decode())


def key_of(seed: str) -> Key:
    """Raises ValueError if it is no seed."""
    import nkeys

    try:
        public: bytes = nkeys.from_seed(bytearray(seed.encode())).public_key
    except nkeys.NkeysError as error:
        raise ValueError(f"it is no seed of a key: {error}") from None
    return Key(seed, public.decode())


def operator_token(operator: Key, name: str, system_account: str) -> str:
    claims = {"type": "operator", "version": 2, "system_account": system_account}
    return _token(operator, operator.public, name, claims)


def account_token(
    operator: Key,
    account: str,
    name: str,
    scopes: Sequence[Mapping[str, Any]] = (),
    revoked: Mapping[str, int] | None = None,
) -> str:
    """An account without JetStream. `revoked` has the public keys of users, and until when their tokens were issued."""
    limits = {
        **_USER_LIMITS,
        **dict.fromkeys(("imports", "exports", "conn", "leaf"), _UNLIMITED),
        **dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), 0),
        "wildcards": True,
    }
    claims: dict[str, Any] = {
        "type": "account",
        "version": 2,
        "limits": limits,
        "default_permissions": {"pub": {}, "sub": {}},
        "signing_keys": list(scopes),
    }
    if revoked:
        claims["revocations"] = dict(revoked)
    return _token(operator, account, name, claims)


def scope(
    signer: str, role: str, publish: Sequence[str], subscribe: Sequence[str], *, responds: bool
) -> dict[str, Any]:
    """What users may do that `signer` signs: `{{name()}}` in a subject is the name of the user."""
    template: dict[str, Any] = {
        "pub": {"allow": list(publish)},
        "sub": {"allow": list(subscribe)},
        **_USER_LIMITS,
    }
    if responds:
        # One answer to each request, within a minute.
        template["resp"] = {"max": 1, "ttl": 60_000_000_000}
    return {"kind": "user_scope", "key": signer, "role": role, "template": template}


def user_token(signer: Key, account: str, user: str, name: str, expires: int | None) -> str:
    """A user whose permissions are those of the scope of `signer`."""
    return _token(signer, user, name, {"type": "user", "version": 2, "issuer_account": account}, expires)


def credentials_text(token: str, user: Key) -> str:
    """The file that clients of NATS log in with."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
    )


def _token(signer: Key, subject: str, name: str, claims: Mapping[str, Any], expires: int | None = None) -> str:
    body: dict[str, Any] = {
        "iat": int(time.time()),
        "iss": signer.public,
        "name": name,
        "sub": subject,
        "nats": claims,
    }
    if expires is not None:
        body["exp"] = expires
    body["jti"] = base64.b32encode(hashlib.sha256(orjson.dumps(body)).digest()).decode().rstrip("=")
    text = f"{_encode(orjson.dumps(_HEADER))}.{_encode(orjson.dumps(body))}"
    return f"{text}.{_encode(signer.sign(text.encode()))}"


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
