"""Load tools.json again when it changes. What does not load leaves the last good profiles in force."""

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

    `on_load` may refuse too, with BadRegistry. A file that is gone counts as one that does not load: no tool is
    taken away or given until it is back. The first look always loads: the file may have changed since the start.
    """
    async for _ in changes(file.path):
        try:
            _reload(file, on_load, on_failure)
        except Exception:
            # A boundary: whatever is wrong with one state of the file, the next one must still be seen.
            log.exception("registry.reload_failed")


def _reload(file: RegistryFile, on_load: OnLoad, on_failure: OnFailure) -> None:
    try:
        on_load(file.load())
    except BadRegistry as error:
        on_failure(error.problems)
