"""Load tools.json again when it changes. What does not load leaves the last good profiles in force."""

from __future__ import annotations

import logging
from collections.abc import Callable

from registry.file_watch import changes
from registry.profiles import BadRegistry, Problem, Profiles
from registry.tools_json_file import RegistryFile

log = logging.getLogger(__name__)

Loaded = Callable[[Profiles], None]
Failed = Callable[[tuple[Problem, ...]], None]


async def watch(file: RegistryFile, loaded: Loaded, failed: Failed) -> None:
    """Until cancelled, call `loaded` after each change that loads and `failed` after each that does not.

    `loaded` may refuse too, with BadRegistry. A file that is gone counts as one that does not load: no tool is
    taken away or given until it is back. The first look always loads: the file may have changed since the start.
    """
    async for _ in changes(file.path):
        try:
            _reload(file, loaded, failed)
        except Exception:
            # A boundary: whatever is wrong with one state of the file, the next one must still be seen.
            log.exception("registry.reload_failed")


def _reload(file: RegistryFile, loaded: Loaded, failed: Failed) -> None:
    try:
        loaded(file.load())
    except BadRegistry as error:
        failed(error.problems)
