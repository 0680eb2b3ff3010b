"""Signatures of calls, for a NATS cluster whose operator is not trusted.

Who runs a NATS server can send whatever they like under any name. A box with `fleet.trust` therefore takes messages
only if they carry the signature of a gateway that it knows, over the subject, the time and the content. The subject
has the box, its boot and the gateway, and a key can be bound to the name of one gateway. The time bounds how long a
message can be replayed, and within it the id of the call makes sure that it runs once. Answers are not signed: such an
operator can read and forge them.
"""

from __future__ import annotations

import base64
import binascii
import logging
import struct
import time
from collections.abc import Collection
from pathlib import Path

import orjson
from msgspec.structs import replace

from mcp_agent.fleet.bus import Message, Serve
from mcp_agent.fleet.bus_errors import FleetError
from mcp_agent.fleet.nats_jwt import Key, key_of, new_key
from mcp_agent.fleet.subjects import gateway_of, is_verb_subject
from mcp_agent.process.logs import event
from tools.files.disk import read_small_file, replace_file

log = logging.getLogger(__name__)

_DOMAIN = b"mcp-agent fleet call 1\n"
# No JSON begins with it, so a message without a signature is never taken for one that has one.
_MARK = b"\x01"
_TIME = struct.Struct(">Q")
_KEY_BYTES, _SIGNATURE_BYTES = 32, 64
_HEAD_BYTES = len(_MARK) + _TIME.size + _KEY_BYTES + _SIGNATURE_BYTES
# How far the clocks of a gateway and a box may be apart; answers are remembered for longer.
_FRESH_S = 120.0
_FILE = "signing.key"


class NotTrusted(Exception):
    """A message of nobody that this box trusts."""


class Signer:
    """Signs what a gateway sends to boxes."""

    def __init__(self, key: Key) -> None:
        self._sign = key.signer()
        self._public = public_bytes(key.public)

    def seal(self, subject: str, payload: bytes) -> bytes:
        """A message to a box with its signature; anything else as it is."""
        if not is_verb_subject(subject):
            return payload
        stamp = _TIME.pack(int(time.time() * 1000))
        return b"".join((_MARK, stamp, self._public, self._sign(_content(subject, stamp, payload)), payload))


class Trust:
    """Whom a box takes calls from. Without entries: from everybody that NATS lets through.

    An entry is a key, or `NAME=KEY`: a key that is good for the gateway of that name alone. Raises ValueError.
    """

    def __init__(self, entries: Collection[str]) -> None:
        # The names that a key may sign as; None among them: any.
        self._keys: dict[bytes, set[str | None]] = {}
        for entry in entries:
            key, name = _parse_entry(entry)
            self._keys.setdefault(key, set()).add(name)

    def guard(self, serve: Serve) -> Serve:
        """Serve only messages that may be; others are answered with the reason."""

        async def check(message: Message) -> None:
            try:
                data = self.open(message.subject, message.data)
            except NotTrusted as error:
                event(log, logging.WARNING, "fleet.not_trusted", subject=message.subject, message=str(error))
                await message.respond(orjson.dumps({"is": "bad", "message": str(error)}))
            else:
                await serve(message if data is message.data else replace(message, data=data))

        return check

    def open(self, subject: str, data: bytes) -> bytes:
        """The content of a message. Raises NotTrusted."""
        if not data.startswith(_MARK):
            if self._keys:
                raise NotTrusted("the message is not signed, and this box takes only signed ones (fleet.trust)")
            return data
        if len(data) < _HEAD_BYTES:
            raise NotTrusted("the signature is cut off")
        payload = data[_HEAD_BYTES:]
        if self._keys:
            stamp, key, signature = _split(data)
            if key not in self._keys:
                raise NotTrusted("the message is signed by a gateway that this box does not trust (fleet.trust)")
            _verify(key, signature, _content(subject, stamp, payload))
            names, gateway = self._keys[key], gateway_of(subject)
            if None not in names and gateway not in names:
                known = " or ".join(sorted(name for name in names if name is not None))
                raise NotTrusted(f"the key of this signature is that of {known}, not of {gateway} (fleet.trust)")
            apart_s = abs(time.time() - _TIME.unpack(stamp)[0] / 1000)
            if apart_s > _FRESH_S:
                raise NotTrusted(
                    f"the message was signed {apart_s:.0f} s ago; the clocks may differ by {_FRESH_S:.0f} s"
                )
        return payload


def load_signer(folder: Path) -> Signer | None:
    """What a gateway signs with; None if no key was made. Raises FleetError."""
    try:
        seed = read_small_file(folder / _FILE).decode("ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError) as error:
        raise FleetError(f"the key in {folder / _FILE} cannot be read: {error}") from None
    try:
        return Signer(key_of(seed))
    except ValueError as error:
        raise FleetError(f"the key in {folder / _FILE} cannot be used: {error}") from None


def make_signing_key(folder: Path) -> tuple[str, bool]:
    """The public key of a gateway, and whether it was made just now."""
    path = folder / _FILE
    try:
        return key_of(read_small_file(path).decode("ascii").strip()).public, False
    except FileNotFoundError:
        key = new_key("user")
        replace_file(path, f"{key.seed}\n".encode())
        return key.public, True
    except (OSError, ValueError) as error:
        raise FleetError(f"the key in {path} cannot be used: {error}") from None


def public_bytes(key: str) -> bytes:
    """The bytes of a public key in the text form of nkeys. Raises ValueError."""
    try:
        raw = base64.b32decode(key + "=" * (-len(key) % 8))
    except binascii.Error:
        raw = b""
    # A letter for the kind of key, the key itself, and a checksum of both.
    if len(raw) != 1 + _KEY_BYTES + 2 or binascii.crc_hqx(raw[:-2], 0) != int.from_bytes(raw[-2:], "little"):
        raise ValueError(f"{key[:70]!r} is no public key; `mcp-agent fleet key` shows that of a gateway")
    return raw[1:-2]


def _parse_entry(entry: str) -> tuple[bytes, str | None]:
    name, _, key = entry.rpartition("=")
    return public_bytes(key), name or None


def _content(subject: str, stamp: bytes, payload: bytes) -> bytes:
    return b"".join((_DOMAIN, subject.encode(), b"\n", stamp, payload))


def _split(data: bytes) -> tuple[bytes, bytes, bytes]:
    start = len(_MARK)
    stamp_end = start + _TIME.size
    key_end = stamp_end + _KEY_BYTES
    return data[start:stamp_end], data[stamp_end:key_end], data[key_end:_HEAD_BYTES]


def _verify(key: bytes, signature: bytes, content: bytes) -> None:
    from nacl.exceptions import BadSignatureError
    from nacl.signing import VerifyKey

    try:
        VerifyKey(key).verify(content, signature)
    except BadSignatureError:
        raise NotTrusted("the signature does not fit the message") from None
