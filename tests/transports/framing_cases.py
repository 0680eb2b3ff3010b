"""Requests whose framing is odd, broken or cut short, each with a mark that shows who served it.

Every request asks for a call of a tool that writes a file named after its mark: `first` for the request that is
sent, `inner` for one that hides in the body of the first or comes behind it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.transports import framing_tables as odd
from tests.transports.framing_tables import LAST

FIRST, INNER = "first", "inner"
_RANDOM_CASES = 150
_SEED = 13


class Requests:
    """Builds requests of one case, so that their effects can be told from those of other cases."""

    def __init__(self, case_id: str, token: str) -> None:
        self.case_id = case_id
        self._token = token.encode()

    def body(self, mark: str = FIRST) -> bytes:
        params = {"name": "fs_write", "arguments": {"path": f"{self.case_id}.{mark}", "content": mark}}
        return json.dumps({"jsonrpc": "2.0", "id": mark, "method": "tools/call", "params": params}).encode()

    def head(self, *framing: bytes, line: bytes = b"POST /rpc HTTP/1.1", closes: bool = True) -> bytes:
        fields = [b"Host: localhost", b"X-API-Key: " + self._token, b"Content-Type: application/json"]
        if closes:
            fields.append(b"Connection: close")
        return b"\r\n".join([line, *fields, *framing]) + b"\r\n\r\n"

    def plain(self, *more: bytes, mark: str = FIRST, line: bytes = b"POST /rpc HTTP/1.1", closes: bool = True) -> bytes:
        body = self.body(mark)
        return self.head(b"Content-Length: %d" % len(body), *more, line=line, closes=closes) + body

    def chunk(self, size: bytes = b"%x", extension: bytes = b"", end: bytes = b"\r\n") -> bytes:
        body = self.body()
        return _fill(size, len(body)) + extension + b"\r\n" + body + end

    def chunked(self, body: bytes, *more: bytes) -> bytes:
        return self.head(b"Transfer-Encoding: chunked", *more) + body

    def around(self, hidden: bytes, *more: bytes, line: bytes = b"POST /rpc HTTP/1.1") -> bytes:
        """A request whose body is `hidden`, on a connection that stays open for what a loose reader finds there."""
        return self.head(b"Content-Length: %d" % len(hidden), *more, line=line, closes=False) + hidden


@dataclass(frozen=True)
class Draft:
    """One case, before it has an id. `sent` is how many requests a strict reader may find in it."""

    name: str
    make: Callable[[Requests], bytes]
    sent: int = 1
    must_serve: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """The bytes of one connection, in the pieces in which they are sent."""

    case_id: str
    draft: str
    pieces: Sequence[bytes]
    sent: int = 1
    must_serve: tuple[str, ...] = ()

    @property
    def is_upgrade(self) -> bool:
        return b"\r\nUpgrade: " in b"".join(self.pieces)

    def __str__(self) -> str:
        return f"{self.case_id} {self.draft} in {len(self.pieces)} pieces"


def _fill(written: bytes, length: int) -> bytes:
    """`written` with `length` in each of its places."""
    return written % ((length,) * written.count(b"%"))


def cases(token: str) -> list[Case]:
    """Every draft whole, those with a body that is hard to read in pieces too, and a few byte by byte."""
    whole = [*_well_formed(), *_lengths(), *_codings(), *_fields(), *_lines(), *_chunks(), *_random()]
    in_pieces = [*_well_formed(), *_chunks(), *[draft for draft in _fields() if "Upgrade" in draft.name]]
    ways: list[tuple[Draft, Callable[[bytes], Sequence[int]]]] = [
        *[(draft, lambda _: ()) for draft in whole],
        *[(draft, _some_places) for draft in in_pieces],
        *[(draft, lambda data: range(1, len(data))) for draft in _well_formed()],
    ]
    found: list[Case] = []
    for number, (draft, places) in enumerate(ways):
        requests = Requests(f"{number:04d}", token)
        data = draft.make(requests)
        pieces = _cut(data, places(data))
        found.append(Case(requests.case_id, draft.name, pieces, draft.sent, draft.must_serve))
    return found


def _some_places(data: bytes) -> Sequence[int]:
    return sorted(random.Random(len(data)).sample(range(1, len(data)), 4))


def early_ends(token: str) -> Iterator[Case]:
    """Two requests, each cut off at every place: none of them is one."""
    for name, make in (("plain", Requests.plain), ("chunked", lambda asked: asked.chunked(asked.chunk() + LAST))):
        whole = make(Requests(name, token))
        for place in range(len(whole)):
            yield Case(f"{name}{place:03d}", "cut off", [make(Requests(f"{name}{place:03d}", token))[:place]])


def _cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    return [data[start:end] for start, end in zip((0, *places), (*places, len(data)), strict=True)]


def _well_formed() -> Iterator[Draft]:
    one = (FIRST,)
    yield Draft("a length", Requests.plain, must_serve=one)
    yield Draft("one chunk", lambda asked: asked.chunked(asked.chunk() + LAST), must_serve=one)
    yield Draft("many chunks", lambda asked: asked.chunked(_small_chunks(asked.body()) + LAST), must_serve=one)
    yield Draft("a trailer", lambda asked: asked.chunked(asked.chunk() + b"0\r\nX-Some: a\r\n\r\n"), must_serve=one)
    yield Draft("an extension", lambda asked: asked.chunked(asked.chunk(extension=b";a=b") + LAST), must_serve=one)
    yield Draft("a request as a body", lambda asked: asked.around(asked.plain(mark=INNER)))
    yield Draft("a pipeline", lambda asked: asked.plain(closes=False) + asked.plain(mark=INNER), 2, one)
    yield Draft("one behind the last", lambda asked: asked.plain() + asked.plain(mark=INNER), must_serve=one)
    yield Draft("junk behind the last", lambda asked: asked.plain() + b"\x00junk\r\n\r\n", must_serve=one)
    yield Draft("lines behind the last", lambda asked: asked.plain() + b"\r\n\r\n" + asked.plain(mark=INNER))


def _small_chunks(body: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in _cut(body, range(16, len(body), 16)))


def _each(name: str, values: Iterable[bytes], make: Callable[[Requests, bytes], bytes]) -> Iterator[Draft]:
    def with_value(value: bytes) -> Callable[[Requests], bytes]:
        return lambda asked: make(asked, value)

    for value in values:
        yield Draft(f"{name} {value!r}", with_value(value))


def _lengths() -> Iterator[Draft]:
    def write(asked: Requests, value: bytes) -> bytes:
        return asked.head(b"Content-Length: " + _fill(value, len(asked.body()))) + asked.body()

    yield from _each("length", odd.LENGTHS, write)


def _codings() -> Iterator[Draft]:
    def write(asked: Requests, fields: bytes) -> bytes:
        return asked.head(_fill(fields, len(asked.body()))) + asked.body()

    def write_chunks(asked: Requests, fields: bytes) -> bytes:
        body = asked.chunk() + LAST
        return asked.head(_fill(fields, len(body))) + body

    def hide(asked: Requests, fields: bytes) -> bytes:
        body = LAST + asked.plain(mark=INNER)
        return asked.head(_fill(fields, len(body)), closes=False) + body

    with_length = [b"Content-Length: %d\r\nTransfer-Encoding: " + coding for coding in odd.CODINGS]
    yield from _each("plain", [*odd.TWO_FRAMINGS, *with_length], write)
    yield from _each(
        "chunks", [*odd.TWO_FRAMINGS, *[b"Transfer-Encoding: " + coding for coding in odd.CODINGS]], write_chunks
    )
    yield from _each("around a request", [*odd.TWO_FRAMINGS, *with_length], hide)


def _fields() -> Iterator[Draft]:
    def name_length(asked: Requests, name: bytes) -> bytes:
        return asked.head(name + b": %d" % len(asked.body())) + asked.body()

    yield from _each("name", odd.NAMES, name_length)
    yield from _each("plain", odd.FIELDS, lambda asked, field: asked.plain(field))
    yield from _each("chunks", odd.FIELDS, lambda asked, field: asked.chunked(asked.chunk() + LAST, field))
    yield from _each("around a request", odd.FIELDS, lambda asked, field: asked.around(asked.plain(mark=INNER), field))


def _lines() -> Iterator[Draft]:
    yield from _each("line", odd.LINES, lambda asked, line: asked.plain(line=line))
    yield from _each(
        "around a request", odd.LINES, lambda asked, line: asked.around(asked.plain(mark=INNER), line=line)
    )
    yield from _each("before a request", odd.PREFACES, lambda asked, preface: preface + asked.plain(mark=INNER))
    yield Draft("HTTP/0.9", lambda asked: b"POST /rpc\r\n\r\n" + asked.body())


def _chunks() -> Iterator[Draft]:
    def last(asked: Requests, end: bytes) -> bytes:
        return asked.chunked(asked.chunk() + end + asked.plain(mark=INNER))

    def trail(asked: Requests, trailer: bytes) -> bytes:
        return asked.chunked(asked.chunk() + b"0\r\n" + trailer + b"\r\n\r\n")

    yield from _each("chunk size", odd.CHUNK_SIZES, lambda asked, size: asked.chunked(asked.chunk(size) + LAST))
    yield from _each(
        "chunk extension", odd.EXTENSIONS, lambda asked, more: asked.chunked(asked.chunk(extension=more) + LAST)
    )
    yield from _each("chunk end", odd.CHUNK_ENDS, lambda asked, end: asked.chunked(asked.chunk(end=end) + LAST))
    yield from _each("last chunk", odd.LAST_CHUNKS, last)
    yield from _each("trailer", odd.TRAILERS, trail)


def _random() -> Iterator[Draft]:
    """A well-formed request with a few bytes changed where the framing is decided."""
    bits = [
        b"\r", b"\n", b"\r\n", b"\x00", b" ", b"\t", b":", b",", b";", b"0", b"1", b"f", b"-", b"+", b"\xff", b"\x0b",
    ]  # fmt: skip

    def spoil(seed: int) -> Callable[[Requests], bytes]:
        def make(asked: Requests) -> bytes:
            source = random.Random(seed)
            is_chunked = source.random() < 0.5
            body = asked.body()
            head = asked.head(b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % len(body))
            # Framing and text take turns, and only the framing is spoilt.
            parts = [head, body]
            if is_chunked:
                half = len(body) // 2
                parts = [head + b"%x\r\n" % half, body[:half], b"\r\n%x\r\n" % (len(body) - half), body[half:]]
                parts.append(b"\r\n" + LAST)
            for _ in range(source.choice([1, 1, 2, 3])):
                which = source.randrange(0, len(parts), 2)
                part = parts[which]
                place = source.randrange(len(part) + 1)
                parts[which] = part[:place] + source.choice(bits) + part[place + source.choice([0, 0, 1, 2]) :]
            return b"".join(parts) + asked.plain(mark=INNER)

        return make

    for number in range(_RANDOM_CASES):
        yield Draft(f"random {number}", spoil(_SEED * 1_000 + number), sent=2)
