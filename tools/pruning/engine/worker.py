"""The engine in a process of its own: requests come in on standard input, choices go out on standard output.

A long text keeps the interpreter busy in single steps of a tenth of a second, during which no other thread runs. In
its own process that is nobody's loss; and one that hangs can be ended. Each message is a length and so many bytes. A
request is two: its text as it is, and everything else as JSON. The process ends when its input does.
"""

import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

if __name__ == "__main__":
    # Started by its path, so that no project's own `tools` is taken for ours.
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import orjson

from tools.pruning.engine import GaveUp, Selection, prune

LENGTH_BYTES = 8


def main() -> None:
    import tools.pruning.engine.pruner  # noqa: F401 - loaded before the first request, which would pay for it

    source, sink = sys.stdin.buffer, sys.stdout.buffer
    write(sink, b"ready")
    while (request := read(source)) is not None and (text := read(source)) is not None:
        write(sink, orjson.dumps(answer(text.decode("utf-8", "surrogatepass"), orjson.loads(request))))


def answer(text: str, request: dict[str, Any]) -> Selection | dict[str, str]:
    ends = time.monotonic() + request.pop("timeout_s")
    try:
        return prune(text, **request, deadline=lambda: time.monotonic() > ends)
    except GaveUp as error:
        return {"gave_up": str(error)}
    except Exception as error:
        # A boundary: the process that asked decides what a failure means for its caller.
        return {"failed": f"{type(error).__name__}: {error}"}


def read(source: BinaryIO) -> bytes | None:
    length = source.read(LENGTH_BYTES)
    return source.read(int.from_bytes(length, "big")) if len(length) == LENGTH_BYTES else None


def write(sink: BinaryIO, message: bytes) -> None:
    sink.write(len(message).to_bytes(LENGTH_BYTES, "big") + message)
    sink.flush()


if __name__ == "__main__":
    main()
