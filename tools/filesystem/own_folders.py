"""The folders that the daemon cannot run without. They are not deleted and not moved."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.context import ToolContext
from tools.files.paths import to_wire
from tools.kit.errors import Denied

_PACKAGES = ("mcp_agent", "registry", "tools")


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
