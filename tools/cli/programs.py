"""Finds the program that a configuration names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path


def find_program(command: str, environment: Mapping[str, str], folder: Path | None = None) -> str | None:
    """The absolute path of a program; None if there is none.

    A name is looked for on the PATH of `environment`, or else on ours. A relative path counts from `folder`, or else
    from the working directory, wherever the program is started.
    """
    # A Path would make `bn`, a name, of `./bn`.
    expanded = os.path.expanduser(command)  # noqa: PTH111
    if os.sep in expanded and folder is not None:
        expanded = str(folder / expanded)
    found = shutil.which(expanded, path=environment.get("PATH"))
    return None if found is None else str(Path(found).absolute())
