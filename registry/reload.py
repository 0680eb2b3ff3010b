"""Loads tools.json again when it changes. If it cannot be loaded, the last good profiles stay in force."""

from __future__ import annotations

import logging
from collections.abc import Callable

from registry.file_watch import changes
from registry.profiles import BadRegistry, Problem, Profiles
from registry.tools_json_file import RegistryFile

log = logging.getLogger(__name__)

OnLoad = Callable[[Profiles], None]
OnFailure = Callable[[tuple[Problem, ...]], None]


async def watch(file: RegistryFile, on_load: OnLoad, on_failure: OnFailure) -> None:
    """Until cancelled, call `on_load` after each change that loads and `on_failure` after each that does not.

    `on_load` may raise BadRegistry too. A deleted file counts as one that does not load: no switch changes until it
    is back. The first check always loads, because the file may have changed since the start.
    """
    async for _ in changes(file.path):
        try:
            _reload(file, on_load, on_failure)
        except Exception:
            # A boundary: whatever is wrong with this state of the file, we must still see the next one.
            log.exception("registry.reload_failed")


def _reload(file: RegistryFile, on_load: OnLoad, on_failure: OnFailure) -> None:
    try:
        on_load(file.load())
    except BadRegistry as error:
        on_failure(error.problems)
