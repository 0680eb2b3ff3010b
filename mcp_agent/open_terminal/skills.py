"""The skills of the person whose daemon this is: folders with a SKILL.md, where coding agents have them.

Open WebUI lists them to its models, and reads one when it is used. Its model then reads the files beside it as any
others. It is a call of fs_read: whoever may read no files has no skills, and deny rules count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mcp_agent.open_terminal.files import Files
from mcp_agent.open_terminal.requests import TerminalRefusal, TerminalRequest
from tools.context import ToolContext
from tools.files import disk
from tools.files.paths import to_wire
from tools.kit.errors import ToolError
from tools.kit.results import Result
from tools.kit.spec import Tool

FOLDERS = (".agents/skills", ".claude/skills")
_FILE = "SKILL.md"
_MOST_SKILLS = 200
_MOST_BYTES = 256 * 1024
_MOST_DESCRIPTION_CHARS = 1_024
_MOST_RESOURCES = 50
_MOST_DEPTH = 4


class _Skills(Result, frozen=True):
    found: list[dict[str, Any]]

    def render(self) -> str:
        return f"{len(self.found)} skills"


async def list_skills(files: Files, request: TerminalRequest) -> list[dict[str, Any]]:
    """Every skill with its name, what it is for, and where it is. Raises TerminalRefusal, ClientLeft."""

    def work(ctx: ToolContext, _: Tool) -> _Skills:
        return _Skills([skill for skill, _ in _skills(ctx)])

    return (await _read(files, request, work)).found


async def read_skill(files: Files, request: TerminalRequest) -> dict[str, Any]:
    """One skill with its text and the files beside it. Raises TerminalRefusal, ClientLeft."""
    name = request.parameter("name")

    def work(ctx: ToolContext, _: Tool) -> _Skills:
        for skill, text in _skills(ctx):
            if skill["name"] == name:
                folder = Path(skill["location"]).parent
                return _Skills([{**skill, "content": text, "resources": _resources(folder)}])
        return _Skills([])

    found = (await _read(files, request, work)).found
    if not found:
        raise TerminalRefusal(404, f"there is no skill {name[:100]!r}")
    return found[0]


async def _read(files: Files, request: TerminalRequest, work: Callable[[ToolContext, Tool], _Skills]) -> _Skills:
    return await files.run(request, "fs_read", work, path=f"~/{FOLDERS[0]}")


def _skills(ctx: ToolContext) -> Iterator[tuple[dict[str, Any], str]]:
    """Each skill that can be read, with the text that follows its head. The first of a name counts."""
    names: set[str] = set()
    for folder in FOLDERS:
        for path in _folders_in(Path.home() / folder):
            try:
                data = disk.read_small_file(ctx.paths.real(path / _FILE), _MOST_BYTES)
            except (OSError, ToolError):
                continue
            head, content = _split_head(data.decode("utf-8", "replace"))
            name, description = head.get("name") or path.name, head.get("description", "")
            if not description or name in names:
                continue
            names.add(name)
            skill = {
                "id": f"terminal:{quote(name, safe='')}",
                "name": name,
                "description": description[:_MOST_DESCRIPTION_CHARS],
                "location": to_wire(path / _FILE),
                "scope": "global",
            }
            yield skill, content
            if len(names) >= _MOST_SKILLS:
                return


def _folders_in(folder: Path) -> list[Path]:
    try:
        return sorted(each for each in folder.iterdir() if not each.name.startswith(".") and each.is_dir())
    except OSError:
        return []


def _split_head(text: str) -> tuple[dict[str, str], str]:
    """The keys of the head between two lines of dashes, and what follows it."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---" or "---" not in (rest := [line.rstrip() for line in lines[1:]]):
        return {}, text.strip()
    end = rest.index("---")
    found: dict[str, str] = {}
    key = ""
    for line in rest[:end]:
        if line[:1] in (" ", "\t") and key:
            # A value goes on: of several lines, or folded with > or |.
            found[key] = f"{found[key]} {line.strip()}".strip()
        elif ":" in line and not line.startswith("#"):
            key, _, value = (part.strip() for part in line.partition(":"))
            found[key] = "" if value[:1] in (">", "|") else value.strip("\"'")
    return found, "\n".join(rest[end + 1 :]).strip()


def _resources(folder: Path) -> list[str]:
    """The files beside a skill, relative to it."""
    found: list[str] = []
    for parent, folders, names in os.walk(folder):
        here = Path(parent).relative_to(folder)
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        if len(here.parts) >= _MOST_DEPTH - 1:
            folders.clear()
        found += [str(here / each) for each in sorted(names) if not each.startswith(".") and each != _FILE]
        if len(found) >= _MOST_RESOURCES:
            break
    return found[:_MOST_RESOURCES]
