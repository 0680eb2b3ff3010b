"""The catalog of tools: the built-in ones are found by walking a package, and tools.json adds others."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING

import tools
from tools.kit.spec import Tool

if TYPE_CHECKING:
    from registry.profiles import Profiles
    from tools.cli.wrap import Wrap
    from tools.cli.wrapped_tools import WrappedProgram

CATEGORY_LABELS = {
    "filesystem": "Filesystem Tools",
    "shell": "Shell Tools",
    "pruning": "Pruning Tools",
    "artifacts": "Artifact Tools",
    "cli": "Wrapped Command Lines",
    "browser": "Browser Tools",
    "gui": "GUI Tools",
    "ssh": "SSH Tools",
    "fleet": "Fleet Tools",
}


class Catalog:
    """Every tool by its name, in one fixed order: by category, then by name."""

    def __init__(self, found: Iterable[Tool]) -> None:
        order = list(CATEGORY_LABELS)
        self.tools = tuple(
            sorted(
                found,
                key=lambda tool: (
                    order.index(tool.category) if tool.category in order else len(order),
                    tool.category,
                    tool.name,
                ),
            )
        )
        self.names = tuple(tool.name for tool in self.tools)
        for name, count in Counter(self.names).items():
            if count > 1:
                raise ValueError(f"two tools are called {name}")
        # Aliases are here too. An alias never hides a name.
        self.by_name: dict[str, Tool] = {alias: tool for tool in self.tools for alias in tool.aliases}
        self.by_name |= zip(self.names, self.tools, strict=True)
        self.categories: dict[str, tuple[Tool, ...]] = {
            category: tuple(tool for tool in self.tools if tool.category == category)
            for category in dict.fromkeys(tool.category for tool in self.tools)
        }


# Gives the tools of mounted servers, none of them under a name in the collection.
MountedTools = Callable[["Profiles", Collection[str]], Iterable[Tool]]


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


def chain_sources(first: MountedTools, second: MountedTools) -> MountedTools:
    """The tools of two sources; a name that the first has is taken for the second."""

    def tools(profiles: Profiles, taken: Collection[str]) -> list[Tool]:
        found = list(first(profiles, taken))
        return [*found, *second(profiles, {*taken, *(tool.name for tool in found)})]

    return tools


def discover(package: ModuleType = tools) -> Catalog:
    """The catalog of all tools that the modules of `package` declare. Raises ValueError for a repeated name."""
    return Catalog(_tools_in(package))


def label(category: str) -> str:
    return CATEGORY_LABELS.get(category, category)


def _tools_in(package: ModuleType) -> Iterator[Tool]:
    for name in _modules(package):
        for value in vars(importlib.import_module(name)).values():
            # A module that imports another's tool does not declare it.
            if isinstance(value, Tool) and value.function.__module__ == name:
                yield value


def _modules(package: ModuleType) -> Iterator[str]:
    """The modules of `package` and of its folders. Deeper modules declare no tools and may be slow to import.

    A folder whose `DECLARES_TOOLS` is False is left out.
    """
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if not module.ispkg:
            yield module.name
        elif getattr(folder := importlib.import_module(module.name), "DECLARES_TOOLS", True):
            inner = pkgutil.iter_modules(folder.__path__, f"{module.name}.")
            yield from (each.name for each in inner if not each.ispkg)
