"""Regular expressions of callers, run in a process of their own.

Python's matcher holds the interpreter while it works, and some patterns make it work for hours. So it works
elsewhere, in bounded time and memory, and is ended when its time is up. If we are killed before that, the system
ends it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from tools.kit.errors import InvalidPattern, Timeout, TooLarge

TIME_LIMIT_S = 5.0
# More than the time limit: it is for a process that nobody ends.
_PROCESSOR_S = 10
_MEMORY_BYTES = 2 * 1024 * 1024 * 1024
_MOST_OUTPUT_BYTES = 64 * 1024 * 1024
_PROGRAM = f"""
import json, re, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({_MEMORY_BYTES}, {_MEMORY_BYTES}))
    resource.setrlimit(resource.RLIMIT_CPU, ({_PROCESSOR_S}, {_PROCESSOR_S}))
except (ImportError, ValueError, OSError):
    pass
head = json.loads(sys.stdin.buffer.readline())
text = sys.stdin.buffer.read().decode("utf-8", "surrogatepass")
found, size = [], 0
try:
    pattern = re.compile(head["pattern"], re.MULTILINE)
    template = head["template"]
    if head["by_line"]:
        pieces, at = [], 0
        for line in text.split("\\n"):
            pieces.append((at, line))
            at += len(line) + 1
    else:
        pieces = [(0, text)]
    # Behind the last line feed there is no line; only \\Z asks for that place.
    end = len(text) if text.endswith("\\n") and "\\\\Z" not in head["pattern"] else -1
    for start, piece in pieces:
        for match in pattern.finditer(piece):
            if start + match.start() == end:
                continue
            put = match.expand(template) if template is not None and (head["all"] or not found) else ""
            size += len(put) + 16
            if size > {_MOST_OUTPUT_BYTES}:
                raise OverflowError("the replacements are larger than the daemon takes at once")
            found.append((start + match.start(), start + match.end(), put))
    answer = dict(found=found)
except (re.error, IndexError) as error:
    answer = dict(error=str(error))
except (OverflowError, MemoryError) as error:
    answer = dict(too_large=str(error) or "out of memory")
sys.stdout.write(json.dumps(answer))
"""


def find_all(
    text: str, pattern: str, template: str | None, *, expand_all: bool, by_line: bool, deadline: float
) -> list[tuple[int, int, str]]:
    """Every match of `pattern`, in order: its start, its end, and `template` filled in, for the first match or for all.

    Raises InvalidPattern, Timeout, TooLarge.
    """
    head = {"pattern": pattern, "template": template, "all": expand_all, "by_line": by_line}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            input=json.dumps(head).encode() + b"\n" + text.encode("utf-8", "surrogatepass"),
            capture_output=True,
            timeout=max(deadline - time.monotonic(), 0.01),
            check=False,
            cwd=os.sep,
        )
    except subprocess.TimeoutExpired:
        raise Timeout(
            f"the regex {pattern[:100]!r} took longer than {TIME_LIMIT_S:g} s and was stopped; nothing was changed",
            hint="avoid repetitions inside repetitions such as (a+)+, or match literally",
        ) from None
    if done.returncode != 0:
        raise TooLarge(f"the regex {pattern[:100]!r} needs more memory than it may have")
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise InvalidPattern(f"the regex {pattern[:100]!r} cannot be used: {answer['error']}")
    if "too_large" in answer:
        raise TooLarge(f"the regex {pattern[:100]!r} gives too much: {answer['too_large']}")
    return [(start, end, put) for start, end, put in answer["found"]]
