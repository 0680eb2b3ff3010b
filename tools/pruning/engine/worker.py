"""The engine in a process of its own: requests come in on standard input, selections go out on standard output.

numpy holds the interpreter's lock for up to a tenth of a second on a long text. In a process of its own this blocks no
other thread, and a process that hangs can be killed. A message is a length and as many bytes. A request is two
messages: everything but the text as JSON, then the text. The process ends at the end of its input.
"""

import sys
import time
from pathlib import Path
from typing import BinaryIO

if __name__ == "__main__":
    # Started by its path, so that `tools` of the current project is not imported instead of ours.
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import msgspec

from tools.pruning.engine import GaveUp, Selection, SelectionRequest, prune

LENGTH_BYTES = 8


def main() -> None:
    import tools.pruning.engine.api  # noqa: F401 - loads numpy before the first request

    source, sink = sys.stdin.buffer, sys.stdout.buffer
    write(sink, b"ready")
    while (request := read(source)) is not None and (text := read(source)) is not None:
        asked = msgspec.json.decode(request, type=SelectionRequest)
        write(sink, msgspec.json.encode(answer(text.decode("utf-8", "surrogatepass"), asked)))


def answer(text: str, request: SelectionRequest) -> Selection | dict[str, str]:
    ends = time.monotonic() + request.timeout_s
    try:
        return prune(
            text,
            request.question,
            source_type=request.source_type,
            is_output=request.is_output,
            collapses=request.collapses,
            max_prune_ratio=request.max_prune_ratio,
            min_keep_lines=request.min_keep_lines,
            deadline=lambda: time.monotonic() > ends,
        )
    except GaveUp as error:
        return {"gave_up": str(error)}
    except Exception as error:
        # A boundary: the process that asked decides what a failure means.
        return {"failed": f"{type(error).__name__}: {error}"}


def read(source: BinaryIO) -> bytes | None:
    length = source.read(LENGTH_BYTES)
    return source.read(int.from_bytes(length, "big")) if len(length) == LENGTH_BYTES else None


def write(sink: BinaryIO, message: bytes) -> None:
    sink.write(len(message).to_bytes(LENGTH_BYTES, "big") + message)
    sink.flush()


if __name__ == "__main__":
    main()
