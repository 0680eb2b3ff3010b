"""What the writing tools share: names, missing folders, what may not be changed, and what a result says of undoing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tools.context import ToolContext
from tools.files.exact import make_folders
from tools.files.paths import to_wire
from tools.kit.errors import Denied, InvalidPath, NotADirectory, NotFound, from_os_error
from tools.kit.results import Result, ResultFacts

_PACKAGES = ("mcp_agent", "registry", "tools")


class ChangeResult(Result, frozen=True, kw_only=True):
    """What a tool says that has changed a file: how to take it back, or why that is not possible."""

    undo_id: str | None = None
    undoable: bool | None = None
    why: str | None = None

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(change_id=self.undo_id)

    @property
    def undo_note(self) -> str:
        return f"undo {self.undo_id}" if self.undo_id is not None else f"cannot be undone: {self.why}"


def resolve_name(ctx: ToolContext, path: str) -> Path:
    """The file, folder or link with this name. Links in its parent folders are followed, the last one is not."""
    target = ctx.paths.resolve(path)
    if not target.name:
        raise InvalidPath(f"{to_wire(target)} is the root of the file system")
    found = ctx.paths.real(target.parent) / target.name
    ctx.paths.check(found)
    return found


def make_parents(target: Path, shown: str, *, create: bool) -> None:
    """Create the folder of `target` if it is missing. Raises NotFound, NotADirectory."""
    parent = target.parent
    if parent.is_dir():
        return
    if not create and not os.path.lexists(parent):
        raise NotFound(f"the folder of {shown} does not exist", hint="pass create_dirs=true to make it")
    try:
        make_folders(parent)
    except NotADirectoryError as error:
        if os.path.lexists(parent):
            raise NotADirectory(f"{to_wire(parent)} is a file, not a folder") from error
        raise NotADirectory(f"{to_wire(parent)}: a part of this path is a file, not a folder") from error
    except OSError as error:
        raise from_os_error(error, to_wire(parent)) from error


def check_not_own(ctx: ToolContext, target: Path, verb: str) -> None:
    """Raise Denied if `target` is the working folder or the environment of the daemon, or holds one of them.

    What is in the working folder is work like any other; what is in the environment is not.
    """
    working = ctx.paths.own_directory
    environment = Path(sys.prefix)
    packages = Path(__file__).parent.parent.parent
    program = [(packages / name, "program") for name in _PACKAGES]
    for own, what in ((working, "working folder"), (environment, "environment"), *program):
        for place in {own, own.resolve()}:
            if target == place or target in place.parents:
                holds = "is" if target == place else f"holds {to_wire(place)},"
                raise _denied(target, f"{holds} the {what} of the daemon itself", verb)
    # Without an environment of its own, the prefix is that of the system, which holds much else.
    if sys.prefix != sys.base_prefix and environment.resolve() in target.parents:
        raise _denied(target, "belongs to the environment of the daemon itself", verb)


def _denied(target: Path, why: str, verb: str) -> Denied:
    return Denied(f"{to_wire(target)} {why} and is not {verb}", hint=f"name what is to be {verb} in it, or use a shell")
