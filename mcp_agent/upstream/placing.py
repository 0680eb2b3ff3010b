"""Gives the tools of mounted servers their names, and makes a catalog of them without starting a server."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mcp_agent.upstream.known_tools import KnownTools
from mcp_agent.upstream.mounted_tools import mounted_tool
from registry.mounts import Mount
from registry.profiles import Profiles
from tools.context import ToolContext
from tools.kit.errors import UpstreamUnavailable
from tools.kit.spec import Tool

_MOST_NAME = 128
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]")


class PlacedTool(NamedTuple):
    """A tool of a mounted server and the name that it has here."""

    mount: Mount
    name: str
    entry: Mapping[str, Any]


def place_tools(
    mounts: Mapping[str, Mount], known: Mapping[str, KnownTools], taken: Collection[str]
) -> tuple[list[PlacedTool], dict[str, str]]:
    """Every tool that the mounts want, with a name of its own, and the reason for each that has none.

    A name that another tool has gets the category in front. `taken` are names of other tools.
    """
    names = set(taken)
    placed: list[PlacedTool] = []
    problems: dict[str, str] = {}
    for category, mount in mounts.items():
        for entry in known[category].tools:
            upstream_name = str(entry["name"])
            if not mount.wants(upstream_name):
                continue
            name = _NOT_IN_A_NAME.sub("_", upstream_name)
            candidates = (name, f"{category}_{name}")
            free = next((each for each in candidates if each not in names and 0 < len(each) <= _MOST_NAME), None)
            if len(name) > _MOST_NAME:
                problems[f"{category}/{name[:_MOST_NAME]}…"] = f"its name has more than {_MOST_NAME} characters"
            elif free is None:
                problems[f"{category}/{name}"] = f"there are other tools named {' and '.join(candidates)}"
            else:
                names.add(free)
                placed.append(PlacedTool(mount, free, entry))
    return placed, problems


def kept_tools(folder: Path) -> Callable[[Profiles, Collection[str]], list[Tool]]:
    """The tools that mounted servers listed last, for commands that show them and run none."""

    def tools(profiles: Profiles, taken: Collection[str]) -> list[Tool]:
        known = {category: KnownTools(folder, mount) for category, mount in profiles.mounts.items()}
        placed, _ = place_tools(profiles.mounts, known, taken)
        return [mounted_tool(each.mount, each.name, each.entry, _no_server) for each in placed]

    return tools


async def _no_server(_: ToolContext, entry: Mapping[str, Any], __: dict[str, Any]) -> dict[str, Any]:
    raise UpstreamUnavailable(f"{entry['name']} runs in the daemon only")
