"""Who may do what on the bus: a few roles with a signing key each, and a credentials file for each box and gateway.

The server knows the roles, not the boxes: inviting one more changes nothing there. A name is bound by NATS: a member
serves and beats only as itself, and a call carries the name of the gateway in its subject because no other is allowed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import orjson
from msgspec import Struct

from mcp_agent.fleet.nats_address import FleetError
from mcp_agent.fleet.nats_jwt import (
    Key,
    account_token,
    credentials_text,
    key_of,
    new_key,
    operator_token,
    scope,
    user_token,
)
from mcp_agent.fleet.subjects import VERBS
from mcp_agent.process.extras import import_extra
from mcp_agent.settings import BOX_NAME
from tools.files.disk import folder_lock, read_small_file, replace_file

Role = Literal["member", "gateway"]
ROLES: tuple[Role, ...] = get_args(Role)

_NAME = "{{name()}}"

PUBLISH: dict[Role, tuple[str, ...]] = {
    # Its own name is asked for before it is taken.
    "member": (f"agent.{_NAME}.beat", f"agent.{_NAME}.output", f"agent.{_NAME}.who"),
    "gateway": (
        *(f"agent.*.*.{verb}.{_NAME}" for verb in VERBS),
        "agent.*.who",
        "agent.who",
    ),
}
SUBSCRIBE: dict[Role, tuple[str, ...]] = {
    "member": (
        *(f"agent.{_NAME}.*.{verb}.*" for verb in VERBS),
        f"agent.{_NAME}.who",
        "agent.who",
        f"_INBOX.box.{_NAME}.>",
    ),
    "gateway": ("agent.*.beat", "agent.*.output", f"_INBOX.gateway.{_NAME}.>"),
}
_KEYS = ("operator", "account", "system", *ROLES)


class Invited(Struct, frozen=True):
    """A credentials file that was written."""

    name: str
    role: Role
    key: str
    issued: int
    expires: int | None
    is_revoked: bool


class FleetKeys:
    """The keys of a fleet, in a folder that only their owner can read. Whoever has them can invite."""

    def __init__(self, folder: Path) -> None:
        import_extra("fleet", ("nkeys",), what="the library of NATS keys")
        self._folder = folder
        self._file = folder / "keys.json"

    @property
    def exist(self) -> bool:
        return self._file.exists()

    def create(self) -> None:
        """Make the keys. Raises FleetError if there are some: what they signed would be worth nothing."""
        with self._changing() as document:
            if document:
                raise FleetError(f"there are keys of a fleet in {self._folder} already")
            keys = {name: new_key("operator" if name == "operator" else "account") for name in _KEYS}
            document["keys"] = {name: key.seed for name, key in keys.items()}
            # Kept as it is: a server that runs takes another account, and no other operator.
            document["operator"] = operator_token(keys["operator"], "mcp-agent", keys["system"].public)
            document["invited"] = []

    def invite(self, name: str, role: Role, lifetime_s: int | None) -> str:
        """The text of a credentials file. Raises FleetError for a name that does not fit, and if there are no keys."""
        if BOX_NAME.fullmatch(name) is None:
            raise FleetError(f"{name[:60]!r} must be lower-case letters, digits, - and _, at most 40 of them")
        with self._changing() as document:
            keys = self._keys(document)
            user = new_key("user")
            expires = None if lifetime_s is None else int(time.time()) + lifetime_s
            document["invited"].append(
                {
                    "name": name,
                    "role": role,
                    "key": user.public,
                    "issued": int(time.time()),
                    "expires": expires,
                    "revoked": None,
                }
            )
        token = user_token(keys[role], keys["account"].public, user.public, name, expires)
        return credentials_text(token, user)

    def revoke(self, name: str) -> int:
        """Take back every file that was written for a name; the server follows when it reads its accounts again."""
        with self._changing() as document:
            self._keys(document)
            found = [each for each in document["invited"] if each["name"] == name and not each["revoked"]]
            if not found:
                raise FleetError(f"no credentials were written for {name}, or they are revoked")
            for each in found:
                each["revoked"] = int(time.time())
            return len(found)

    def invited(self) -> list[Invited]:
        document = self._read()
        self._keys(document)
        return [
            Invited(
                each["name"], each["role"], each["key"], each["issued"], each["expires"], each["revoked"] is not None
            )
            for each in document["invited"]
        ]

    def remember_accounts_folder(self, folder: Path) -> None:
        with self._changing() as document:
            self._keys(document)
            document["accounts_folder"] = str(folder)

    def accounts_folder(self) -> Path:
        """Where the accounts for the server were written last."""
        return Path(self._read().get("accounts_folder", self._folder))

    def server_accounts(self) -> str:
        """The part of the configuration of nats-server that makes it believe these keys. It holds no secret."""
        document = self._read()
        keys = self._keys(document)
        operator, account, system = keys["operator"], keys["account"], keys["system"]
        scopes = [
            scope(keys[role].public, role, publish=PUBLISH[role], subscribe=SUBSCRIBE[role], responds=role == "member")
            for role in ROLES
        ]
        # One second more: the token may have been issued in the same one.
        revoked = {each["key"]: each["revoked"] + 1 for each in document["invited"] if each["revoked"]}
        fleet = account_token(operator, account.public, "fleet", scopes, revoked)
        return (
            "# Written by `mcp-agent fleet`, and written again by it: change nothing here.\n"
            f"operator: {document['operator']}\n"
            f"system_account: {system.public}\n"
            "resolver: MEMORY\n"
            "resolver_preload: {\n"
            f"  {account.public}: {fleet}\n"
            f"  {system.public}: {account_token(operator, system.public, 'system')}\n"
            "}\n"
        )

    def _read(self) -> dict[str, Any]:
        try:
            document = orjson.loads(read_small_file(self._file))
        except FileNotFoundError:
            return {}
        except (OSError, orjson.JSONDecodeError) as error:
            raise FleetError(f"the keys of the fleet in {self._file} cannot be read: {error}") from None
        if not isinstance(document, dict):
            raise FleetError(f"the keys of the fleet in {self._file} cannot be read: it is no object")
        return document

    def _keys(self, document: dict[str, Any]) -> dict[str, Key]:
        if not document:
            raise FleetError(f"there are no keys of a fleet in {self._folder}; `mcp-agent fleet init` makes them")
        try:
            return {name: key_of(document["keys"][name]) for name in _KEYS}
        except (KeyError, TypeError, ValueError) as error:
            raise FleetError(f"the keys of the fleet in {self._file} cannot be read: {error!r}") from None

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """The document, written when the block ends without an error; one change at a time."""
        with folder_lock(self._folder):
            document = self._read()
            yield document
            replace_file(self._file, orjson.dumps(document, option=orjson.OPT_INDENT_2))
