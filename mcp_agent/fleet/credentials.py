"""Who may do what on the bus: a few roles with a signing key each, and a credentials file for each box and gateway.

The server knows the roles, not the boxes: inviting one more changes nothing there. A name is bound by NATS: a member
serves and beats only as itself, and a call carries the name of the gateway in its subject because no other is allowed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

import msgspec
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


class Invited(Struct):
    """A credentials file that was written. Times are in seconds."""

    name: str
    role: str
    key: str
    issued: int
    expires: int | None = None
    revoked: int | None = None


class _KeysFile(Struct):
    # The seeds, by what they are for.
    keys: dict[str, str]
    # The token of the operator. Kept as it is: a server that runs takes another account, and no other operator.
    operator: str
    invited: list[Invited]
    accounts_folder: str | None = None

    def key(self, name: str) -> Key:
        return key_of(self.keys[name])


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
        with folder_lock(self._folder):
            if self.exist:
                raise FleetError(f"there are keys of a fleet in {self._folder} already")
            keys = {name: new_key("operator" if name == "operator" else "account") for name in _KEYS}
            operator = operator_token(keys["operator"], "mcp-agent", keys["system"].public)
            self._write(_KeysFile({name: key.seed for name, key in keys.items()}, operator, []))

    def invite(self, name: str, role: Role, lifetime_s: int | None) -> str:
        """The text of a credentials file. Raises FleetError for a name that does not fit, and if there are no keys."""
        if BOX_NAME.fullmatch(name) is None:
            raise FleetError(f"{name[:60]!r} must be lower-case letters, digits, - and _, at most 40 of them")
        expires = None if lifetime_s is None else int(time.time()) + lifetime_s
        user = new_key("user")
        with self._changing() as file:
            file.invited.append(Invited(name, role, user.public, int(time.time()), expires))
        token = user_token(file.key(role), file.key("account").public, user.public, name, expires)
        return credentials_text(token, user)

    def revoke(self, name: str) -> int:
        """Take back every file that was written for a name; the server follows when it reads its accounts again."""
        with self._changing() as file:
            found = [each for each in file.invited if each.name == name and not each.revoked]
            if not found:
                raise FleetError(f"no credentials were written for {name}, or they are revoked")
            for each in found:
                each.revoked = int(time.time())
            return len(found)

    def invited(self) -> list[Invited]:
        return self._read().invited

    def remember_accounts_folder(self, folder: Path) -> None:
        with self._changing() as file:
            file.accounts_folder = str(folder)

    def accounts_folder(self) -> Path:
        """Where the accounts for the server were written last."""
        return Path(self._read().accounts_folder or self._folder)

    def server_accounts(self) -> str:
        """The part of the configuration of nats-server that makes it believe these keys. It holds no secret."""
        file = self._read()
        operator, account, system = map(file.key, ("operator", "account", "system"))
        scopes = [
            scope(
                file.key(role).public, role, publish=PUBLISH[role], subscribe=SUBSCRIBE[role], responds=role == "member"
            )
            for role in ROLES
        ]
        # One second more: the token may have been issued in the same one.
        revoked = {each.key: each.revoked + 1 for each in file.invited if each.revoked}
        fleet = account_token(operator, account.public, "fleet", scopes, revoked)
        return (
            "# Written by `mcp-agent fleet`, and written again by it: change nothing here.\n"
            f"operator: {file.operator}\n"
            f"system_account: {system.public}\n"
            "resolver: MEMORY\n"
            "resolver_preload: {\n"
            f"  {account.public}: {fleet}\n"
            f"  {system.public}: {account_token(operator, system.public, 'system')}\n"
            "}\n"
        )

    def _read(self) -> _KeysFile:
        try:
            file = msgspec.json.decode(read_small_file(self._file), type=_KeysFile)
            for name in _KEYS:
                file.key(name)
        except FileNotFoundError:
            raise FleetError(
                f"there are no keys of a fleet in {self._folder}; `mcp-agent fleet init` makes them"
            ) from None
        except (OSError, msgspec.DecodeError, KeyError, ValueError) as error:
            raise FleetError(f"the keys of the fleet in {self._file} cannot be read: {error}") from None
        return file

    def _write(self, file: _KeysFile) -> None:
        replace_file(self._file, msgspec.json.format(msgspec.json.encode(file)))

    @contextlib.contextmanager
    def _changing(self) -> Iterator[_KeysFile]:
        """The file, written when the block ends without an error; one change at a time."""
        with folder_lock(self._folder):
            file = self._read()
            yield file
            self._write(file)
