"""The first code that runs. It makes sure that the rest is ours, whatever folder the daemon is started in.

A project often has a `tools/` of its own. `python -m mcp_agent` puts the working directory in front of the import
path, and so does `PYTHONPATH=.` for the console script; either would give us the project's package for ours. So
those places are taken off the path, for this process alone: its children keep the environment they had.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> int:
    own_imports_only()
    from mcp_agent.cli import run

    return run(sys.argv[1:])


def pruner() -> int:
    own_imports_only()
    from mcp_agent.programs.pruner.command import run

    return run(sys.argv[1:])


def own_imports_only() -> None:
    """Leave on the import path only the interpreter's own places and the folder that this package is in."""
    own = str(Path(__file__).resolve().parent.parent)
    foreign = {os.getcwd(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}  # noqa: PTH109 - sys.path is text
    foreign = {os.path.realpath(place or ".") for place in foreign}
    sys.path[:] = [own, *(place for place in sys.path if os.path.realpath(place or ".") not in foreign | {own})]
