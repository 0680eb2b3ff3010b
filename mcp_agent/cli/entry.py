"""The first code that runs. It hides the token, and makes sure that we import our own packages.

Many projects have a `tools/` package. `python -m mcp_agent` puts the working directory first on the import path, and
so does `PYTHONPATH=.` for the console script; then we would import the project's package instead of ours. So we
remove these places from the path of this process. Its children keep their environment.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

_TOKEN = "MCP_AGENT_TOKEN"
_TOKEN_DESCRIPTOR = "MCP_AGENT_TOKEN_DESCRIPTOR"
# As long as a token may be, and less than any pipe holds.
_MOST_TOKEN_BYTES = 4_096
# Of objects, after which the collector looks for garbage. Imports leave none behind, and with Python's own number it
# looks up to a hundred times before a daemon is there. `memory.collect_as_usual` ends that.
_MOST_UNCOLLECTED = 50_000


def main() -> int:
    gc.set_threshold(_MOST_UNCOLLECTED)
    hide_token()
    own_imports_only()
    from mcp_agent.cli.main import run

    return run(sys.argv[1:])


def pruner() -> int:
    gc.set_threshold(_MOST_UNCOLLECTED)
    hide_token()
    own_imports_only()
    from mcp_agent.programs.pruner.command import run

    return run(sys.argv[1:])


def hide_token() -> None:
    """Start this process again without the token in its environment; the new start receives it through a pipe.

    Every process of the same user can read `/proc/<pid>/environ`, which has the environment that the process was
    started with, also after a variable was removed from it. What is set later is not in it.
    """
    descriptor = os.environ.pop(_TOKEN_DESCRIPTOR, None)
    if descriptor is not None and descriptor.isdecimal():
        with open(int(descriptor), "rb") as pipe:
            os.environb[_TOKEN.encode()] = pipe.read()
        return
    token = os.environb.get(_TOKEN.encode())
    if token is None or not hasattr(sys, "orig_argv"):
        return
    reading, writing = os.pipe()
    # One byte more than is allowed, so that a longer token is refused and not cut.
    os.write(writing, token[: _MOST_TOKEN_BYTES + 1])
    os.close(writing)
    os.set_inheritable(reading, True)
    environment = {name: value for name, value in os.environ.items() if name != _TOKEN}
    environment[_TOKEN_DESCRIPTOR] = str(reading)
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def own_imports_only() -> None:
    """Remove everything from the import path but the interpreter's own folders and the folder of this package."""
    own = str(Path(__file__).resolve().parents[2])
    foreign = {os.getcwd(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}  # noqa: PTH109 - sys.path is text
    foreign = {os.path.realpath(place or ".") for place in foreign}
    sys.path[:] = [own, *(place for place in sys.path if os.path.realpath(place or ".") not in foreign | {own})]
