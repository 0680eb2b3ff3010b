"""The catalog of a running daemon: its built-in tools, and those that tools.json adds to them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from registry.catalog import Catalog
from registry.profiles import Profiles
from tools.kit.spec import Tool

if TYPE_CHECKING:
    from tools.cli.wrap import Wrap
    from tools.cli.wrapped_tools import WrappedProgram

# Gives the tools of mounted servers, none of them under a name in the collection.
MountedTools = Callable[[Profiles, Collection[str]], Iterable[Tool]]


def chain_sources(first: MountedTools, second: MountedTools) -> MountedTools:
    """The tools of two sources; a name that the first has is taken for the second."""

    def tools(profiles: Profiles, taken: Collection[str]) -> list[Tool]:
        found = list(first(profiles, taken))
        return [*found, *second(profiles, {*taken, *(tool.name for tool in found)})]

    return tools


class LiveCatalog:
    """Makes the tools of wrapped programs from their entries in tools.json, and adds those of mounted servers."""

    def __init__(self, built_in: Catalog, mounted: MountedTools = lambda *_: ()) -> None:
        self.built_in = built_in
        self._mounted = mounted
        self.programs: tuple[WrappedProgram, ...] = ()

    def of(self, profiles: Profiles) -> Catalog:
        """Every tool that exists under `profiles`."""
        self.programs = tuple(self._program(wrap) for wrap in profiles.wraps)
        added = [tool for program in self.programs for tool in program.tools]
        added += self._mounted(profiles, {*self.built_in.by_name, *(tool.name for tool in added)})
        return Catalog((*self.built_in.tools, *added)) if added else self.built_in

    def _program(self, wrap: Wrap) -> WrappedProgram:
        """The program as it was, if its entry is the same: it remembers who uses it."""
        before = next((each for each in self.programs if each.wrap == wrap), None)
        if before is not None:
            return before
        # Imported when something is wrapped.
        from tools.cli.wrapped_tools import wrapped_program

        return wrapped_program(wrap)
