"""Write the reference pages under docs/ from the code: `python -m mcp_agent.reference`.

`--check` writes nothing and fails if a page is stale; the tests use it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_agent.calls.shaping import TEXT_CLIENTS
from mcp_agent.settings import DAEMON_SETTINGS, PRUNER_SETTINGS
from registry.catalog import Catalog, discover, label
from registry.profiles import SHIPPED
from tools.kit import errors
from tools.kit.spec import Tool

_DOCS = Path(__file__).resolve().parent.parent / "docs"
_NOTE = "<!-- Written by `make docs` from the code. Do not edit by hand. -->"


def main(arguments: list[str]) -> int:
    stale = []
    for name, text in pages().items():
        path = _DOCS / name
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.write_text(text, "utf-8")
    if stale and "--check" in arguments:
        sys.stderr.write(f"stale in docs/: {', '.join(stale)}; run `make docs`\n")
        return 1
    return 0


def pages(catalog: Catalog | None = None) -> dict[str, str]:
    """Every generated page, by its file name; of the tools in `catalog`, or of our own."""
    written = {"tools.md": _tools(catalog or discover()), "settings.md": _settings()}
    return {name: "\n".join(lines) + "\n" for name, lines in written.items()}


def _tools(catalog: Catalog) -> Iterator[str]:
    yield from ("# Tools", "", _NOTE, "")
    yield "Every tool with its arguments. An argument without a default is required."
    for category, tools in catalog.categories.items():
        yield from ("", f"## {label(category)} (`{category}`)")
        for tool in tools:
            yield from _tool(tool)
    yield from ("", "## Error codes", "")
    yield 'A tool that fails answers with `isError` and `{"error": {"code", "message", "hint"?}}`.'
    yield from ("", "| code | meaning |", "| --- | --- |")
    for code, meaning in _codes():
        yield f"| `{code}` | {meaning} |"


def _tool(tool: Tool) -> Iterator[str]:
    yield from ("", f"### {tool.name}", "", " ".join(tool.description.split()), "")
    effect = {"read": "Reads only.", "write": "Writes.", "execute": "Executes."}[tool.effect]
    yield f"{effect}{' May destroy what was there.' if tool.destructive else ''}"
    properties: dict[str, Any] = tool.input_schema["properties"]
    if not properties:
        return
    yield from ("", "| argument | type | default | what to put there |", "| --- | --- | --- | --- |")
    for name, schema in properties.items():
        yield f"| `{name}` | {_type(schema)} | {_default(name, schema, tool)} | {schema.get('description', '')} |"


def _type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{option}`" for option in schema["enum"])
    kind = f"array of {_type(schema['items'])}" if schema["type"] == "array" else str(schema["type"])
    bounds = [schema.get("minimum"), schema.get("maximum")]
    if bounds == [None, None]:
        return kind
    low, high = ("" if bound is None else f"{bound:g}" if bound < 10_000 else f"{bound:,}" for bound in bounds)
    return f"{kind}, {low} to {high}" if low and high else f"{kind}, from {low}" if low else f"{kind}, to {high}"


def _default(name: str, schema: dict[str, Any], tool: Tool) -> str:
    if name in tool.input_schema.get("required", ()):
        return ""
    return f"`{str(schema['default']).lower()}`" if "default" in schema else "absent"


def _codes() -> Iterator[tuple[str, str]]:
    """The codes and their meaning, from the tree drawn in tools/errors.py."""
    for line in (errors.__doc__ or "").splitlines():
        if "── " in line:
            _, code, meaning = line.split("── ")[1].split(maxsplit=2)
            yield code, meaning


def _settings() -> Iterator[str]:
    yield from ("# Settings", "", _NOTE, "")
    yield "Settings are read when the daemon starts. A flag wins over the environment variable, the variable over"
    yield "`config.toml` in the user's config folder (`~/.config/mcp-agent/` on Linux), and that file over the default."
    yield "What can change while the daemon runs is in [tools.json](tool-registry.md). No setting is in both."
    yield from ("", "| flag | variable | in config.toml | type | default | what it does |", f"|{' --- |' * 6}")
    for setting in DAEMON_SETTINGS:
        names = f"`{setting.flag}` | `{setting.variable}` | `{setting.name}`"
        yield f"| {names} | {setting.kind.name} | {setting.shown_default} | {setting.help} |"
    yield ""
    yield "`MCP_AGENT_TOKEN` in the environment is used instead of the token file. The daemon removes it from its"
    yield "environment at once, so no process that it starts can see it. No flag takes a token, because other users"
    yield "can read command lines."
    yield from ("", "## The pruner", "")
    yield "`mcp-agent` and `mcp-pruner` read these from the environment only. See [pruning](pruning.md)."
    yield from ("", "| variable | type | default | what it does |", f"|{' --- |' * 4}")
    for setting in PRUNER_SETTINGS:
        yield f"| `{setting.variable}` | {setting.kind.name} | {setting.shown_default} | {setting.help} |"
    yield from ("", "## Shipped profiles", "", "| profile | what it allows |", "| --- | --- |")
    for profile in SHIPPED.values():
        yield f"| `{profile.id}` | {profile.description} |"
    yield from ("", "## Clients that receive text", "")
    yield "With `response.form` set to `auto`, clients with one of these names receive results as text, all others"
    yield f"as JSON: {', '.join(f'`{name}`' for name in TEXT_CLIENTS)}."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
