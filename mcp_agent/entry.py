"""The first code that runs. It makes sure that we import our own packages, whatever the working directory is.

Many projects have a `tools/` package. `python -m mcp_agent` puts the working directory first on the import path, and
so does `PYTHONPATH=.` for the console script; then we would import the project's package instead of ours. So we
remove these places from the path of this process. Its children keep their environment.
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
    """Remove everything from the import path but the interpreter's own folders and the folder of this package."""
    own = str(Path(__file__).resolve().parent.parent)
    foreign = {os.getcwd(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}  # noqa: PTH109 - sys.path is text
    foreign = {os.path.realpath(place or ".") for place in foreign}
    sys.path[:] = [own, *(place for place in sys.path if os.path.realpath(place or ".") not in foreign | {own})]
