"""The later half of a long walk, in a process of its own: reads what is asked, prints what it has found, and ends.

A program for `shared_walk.py`, started without all that takes time: no site packages, and few modules.
"""

from __future__ import annotations

import marshal
import os
import sys
import time


def main() -> None:
    # Ours, and not what happens to be called `tools` where the daemon works.
    sys.path.insert(0, os.path.abspath(f"{__file__}/../../.."))  # noqa: PTH100 - pathlib is slow to import
    from tools.filesystem.walk import Walk

    asked, start, most, left_s = marshal.load(sys.stdin.buffer)
    deadline = time.monotonic() + left_s

    def check() -> None:
        if time.monotonic() > deadline:
            raise SystemExit("it took too long")

    found, count = [], 0
    for run in Walk(asked, check, start):
        found.append(run)
        count += len(run[1])
        if most is not None and count >= most:
            break
    sys.stdout.buffer.write(marshal.dumps(found))


if __name__ == "__main__":
    main()
