"""The catalogue of tools. It is found by walking a package, and fixed when the daemon starts."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterable, Iterator
from types import ModuleType

import tools
from tools.kit.spec import Tool

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


def discover(package: ModuleType = tools) -> Catalog:
    """The catalogue of all tools that the modules of `package` declare. Raises ValueError for a repeated name."""
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
