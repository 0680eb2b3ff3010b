"""What each module of the product imports, read off its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support import ROOT

PACKAGES = ("mcp_agent", "registry", "tools")


@cache
def modules() -> dict[str, Path]:
    """Every module of the product by its dotted name."""
    return {_name(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}


@cache
def imported_by(path: Path) -> frozenset[str]:
    """What a module imports, at once or later; what only the type checker imports does not count."""
    return frozenset(_imported(ast.parse(path.read_text("utf-8"))))


def rooms() -> set[str]:
    """Every folder of the product, as the map names it: `mcp_agent/calls`."""
    return {str(path.parent.relative_to(ROOT)) for path in modules().values()}


def unit(module: str) -> str:
    """What a module counts for in the graph of imports: its folder, or itself if it lies loose in a package."""
    path = modules()[module].relative_to(ROOT)
    return str(path if str(path.parent) in ("mcp_agent", "tools") else path.parent)


def _imported(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            # `from a import b` may mean the module a.b; both are named, and what is no module is left out by readers.
            yield child.module
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        yield from _imported(child)


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
