"""Pagination cursors: opaque signed texts that say where a short result goes on.

A cursor names an artifact and a place in it. Its signature covers the tool and the caller too, so no other caller can
use it. The key is in the state folder, so a cursor is still valid after a restart.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tools.files import disk
from tools.kit.errors import InvalidParams
from tools.kit.spec import CURSOR

_PREFIX = "c1_"
_KEY_BYTES = 32
_MAC_BYTES = 12
_DIGEST_CHARS = 12
_MOST_CHARS = 1_000


class Place(NamedTuple):
    """A place in an artifact: a byte of it, or an element or a character of one field of the object that it is.

    `fills` is for text that was asked for by name and place: a page of it is as large as a result can be. `beyond` says
    how to get what the artifact itself does not have, and is empty if it has everything.
    """

    reference: str
    field: str
    offset: int
    fills: bool = False
    beyond: str = ""


class Origin(NamedTuple):
    """The call that a cursor continues: its tool, its caller, and a short hash of its arguments."""

    tool: str
    owner: str
    digest: str

    @classmethod
    def of(cls, tool: str, owner: str, arguments: Mapping[str, Any]) -> Origin:
        """The digest is the same however the arguments are ordered, and "" if there are none but a cursor."""
        given = {key: value for key, value in arguments.items() if key != CURSOR and value is not None}
        written = orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
        return cls(tool, owner, hashlib.sha256(written).hexdigest()[:_DIGEST_CHARS] if given else "")


class Cursors:
    """Writes cursors and reads them back. The key is made when it is first needed."""

    def __init__(self, key_file: Path, box: str = "") -> None:
        """`box` is the name of this machine in a fleet: a gateway finds it by the cursor."""
        self._ending = f".{box}" if box else ""
        self._key_file = key_file
        self._key: bytes | None = None

    def write(self, place: Place, origin: Origin) -> str:
        """The same place of the same call has the same cursor."""
        payload = orjson.dumps([*place, origin.digest])
        return (
            _PREFIX + base64.urlsafe_b64encode(self._mac(payload, origin) + payload).decode().rstrip("=") + self._ending
        )

    def read(self, cursor: str, asking: Origin) -> tuple[Place, Origin]:
        """The place in a cursor, and the call that gave it.

        Raises InvalidParams if the cursor is not ours, or continues another call. `asking` may repeat the arguments of
        that call, or have none but the cursor.
        """
        place, digest = self._verify(cursor, asking)
        if asking.digest not in ("", digest):
            raise _invalid_cursor(
                "cursor goes on with a call that had other arguments: repeat those, or pass cursor alone"
            )
        return place, asking._replace(digest=digest)

    def _verify(self, cursor: str, asking: Origin) -> tuple[Place, str]:
        try:
            encoded = cursor.removeprefix(_PREFIX).removesuffix(self._ending)
            data = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            data = b""
        mac, payload = data[:_MAC_BYTES], data[_MAC_BYTES:]
        is_ours = is_cursor(cursor) and hmac.compare_digest(mac, self._mac(payload, asking))
        # The last letter of Base64 has bits that no byte needs: another letter there would be read as the same.
        if not is_ours or base64.urlsafe_b64encode(data).decode().rstrip("=") != encoded:
            raise _invalid_cursor(
                f"cursor {cursor[:40]!r} is not one that {asking.tool} gave you: pass the nextCursor of an earlier "
                "answer as it was, or leave it out to begin again"
            )
        *place, digest = orjson.loads(payload)
        return Place(*place), digest

    def _mac(self, payload: bytes, origin: Origin) -> bytes:
        if self._key is None:
            self._key = _key_in(self._key_file)
        signed = b"\0".join((origin.tool.encode(), origin.owner.encode(), payload))
        return hmac.digest(self._key, signed, "sha256")[:_MAC_BYTES]


def is_cursor(text: str) -> bool:
    """Whether a text looks like one of ours, good or not."""
    return text.startswith(_PREFIX) and len(text) <= _MOST_CHARS


def _key_in(path: Path) -> bytes:
    """The key in the file, created if it is missing. If it cannot be saved, it is valid for this process only."""
    try:
        with disk.folder_lock(path.parent):
            key = disk.read_small_file(path) if path.exists() else b""
            if len(key) != _KEY_BYTES:
                key = secrets.token_bytes(_KEY_BYTES)
                disk.replace_file(path, key)
    except OSError:
        return secrets.token_bytes(_KEY_BYTES)
    return key


def _invalid_cursor(message: str) -> InvalidParams:
    return InvalidParams(message, issues=[{"path": "arguments.cursor", "code": "custom", "message": "custom"}])
