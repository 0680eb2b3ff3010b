"""A small catalogue of tools of every kind, for tests of who may use which."""

from __future__ import annotations

from typing import Any

from registry.catalog import Catalog
from registry.profiles import Profiles
from registry.tools_json import load_document, read
from tools.context import ToolContext
from tools.kit.spec import Effect, Tool, tool


def _tool(name: str, category: str, effect: Effect) -> Tool:
    def function(ctx: ToolContext) -> Any: ...

    function.__name__ = name
    function.__doc__ = f"What {name} does."
    return tool(category, effect=effect)(function)


CATALOG = Catalog(
    (
        _tool("fs_list", "filesystem", "read"),
        _tool("fs_read", "filesystem", "read"),
        _tool("fs_write", "filesystem", "write"),
        _tool("shell_exec", "shell", "execute"),
        _tool("prune_text", "pruning", "read"),
        _tool("browser_click", "browser", "execute"),
    )
)
ALL = CATALOG.names


def parse(text: str, catalog: Catalog) -> Profiles:
    """The profiles in the text of a tools.json. Raises BadRegistry with every problem."""
    return read(load_document(text.encode()), catalog)


def switched(category: str = "filesystem", *, enabled: bool = True, **tools: bool) -> dict[str, Any]:
    """A category of a profile in tools.json."""
    return {
        "id": category,
        "enabled": enabled,
        "tools": [{"id": name, "enabled": value} for name, value in tools.items()],
    }


def profile(profile_id: str = "default", *categories: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A profile in tools.json."""
    return {"id": profile_id, "categories": list(categories), **keys}
