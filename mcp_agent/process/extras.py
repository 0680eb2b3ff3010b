"""Packages that only some need are extras: imported at first use; without one, an error says what to install."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
import sys
from collections.abc import Iterable

from registry.user_error import UserError

_DISTRIBUTION = "mcp-agent-host"


def import_extra(extra: str, modules: Iterable[str], *, what: str) -> None:
    """Import the modules of an extra, which people know as `what`. Raises UserError with what installs it."""
    # It may have been installed since the daemon has started.
    importlib.invalidate_caches()
    try:
        for name in modules:
            importlib.import_module(name)
    except ImportError as error:
        raise UserError(f"{what} is not installed ({error}); {_advice(extra)}") from None


def missing_extra(extra: str, module: str) -> str | None:
    """What installs an extra that is not there, which is known by one of its modules; None if it is."""
    return None if importlib.util.find_spec(module) is not None else _advice(extra)


def _advice(extra: str) -> str:
    # It is slow to load, and only needed for this sentence.
    import importlib.metadata

    condition = re.compile(rf"""\s*;\s*extra == ['"]{extra}['"]$""")
    requirements = [
        condition.sub("", each) for each in importlib.metadata.requires(_DISTRIBUTION) or () if condition.search(each)
    ]
    packages = shlex.join(requirements)
    if importlib.util.find_spec("pip") is None:
        return f"install it into the environment of mcp-agent ({sys.prefix}): {packages}"
    return f"install it with: {shlex.quote(sys.executable)} -m pip install {packages}"
