"""Write the reference pages under docs/ from the code: `python -m mcp_agent.cli.reference`.

`--check` writes nothing and fails if a page is stale; the tests use it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_agent.answers.budget import TEXT_CLIENTS
from mcp_agent.cli.declaration import Argument, Command
from mcp_agent.cli.main import GROUPS, commands_of
from mcp_agent.cli.tables import argument_default, argument_type
from mcp_agent.settings import DAEMON_SETTINGS, PRUNER_SETTINGS
from registry.catalog import Catalog, discover, label
from registry.profiles import SHIPPED
from tools.kit import errors
from tools.kit.spec import Tool

_DOCS = Path(__file__).resolve().parents[2] / "docs"
# The settings that most commands take.
_USUAL = ("tools_file", "state_dir", "token_file")
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
    written = {"tools.md": _tools(catalog or discover()), "settings.md": _settings(), "commands.md": _commands()}
    return {name: "\n".join(lines) + "\n" for name, lines in written.items()}


def _commands() -> Iterator[str]:
    yield from ("# Commands", "", _NOTE, "")
    yield "`mcp-agent COMMAND --help` shows the same, with examples. Every command takes `--json`, which changes"
    yield "the form of its output and nothing else. Most take the [settings](settings.md) `--tools-file`, `--state-dir`"
    yield "and `--token-file`; others are named. Lists are coloured on a terminal (not with `NO_COLOR=1`), and"
    yield "separated by tabs in a pipe."
    yield from ("", "Completion of commands and flags, for the shell that you use:", "")
    yield from ("```console", '$ eval "$(mcp-agent completion bash)"   # in ~/.bashrc')
    yield '$ mcp-agent completion zsh > "${fpath[1]}/_mcp-agent"'
    yield from ("$ mcp-agent completion fish > ~/.config/fish/completions/mcp-agent.fish", "```")
    yield from ("", "Exit codes: 0 done; 1 it failed; 2 it was typed wrong, or a file of settings cannot be used;")
    yield "3 no daemon runs, or none answers."
    for group, words in GROUPS.items():
        yield from ("", f"## {group}")
        for each in (command for word in words for command in commands_of(word)):
            yield from _command(each)


def _command(command: Command) -> Iterator[str]:
    yield from ("", f"### {command.prog}", "", command.description)
    if len(command.settings) == len(DAEMON_SETTINGS):
        yield "It takes all settings."
    elif named := [f"`{setting.flag}`" for setting in command.settings if setting.name not in _USUAL]:
        yield f"Settings: {', '.join(named)}."
    if command.arguments:
        yield ""
        yield from (f"- {_argument(each)}: {each.details.get('help', '')}" for each in command.arguments)


def _argument(described: Argument) -> str:
    if not described.names[0].startswith("-"):
        return f"`{described.value}`"
    value = f" {described.value}" if described.value else ""
    return ", ".join(f"`{name}{value}`" for name in described.names)


def _tools(catalog: Catalog) -> Iterator[str]:
    yield from ("# Tools", "", _NOTE, "")
    yield "Every tool with its arguments; those in bold are required, and a switch is off."
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
    effect = f"*{tool.effect}{', may destroy what was there' if tool.destructive else ''}*"
    yield from ("", f"### {tool.name}", "", f"{' '.join(tool.description.split())} {effect}")
    properties: dict[str, Any] = tool.input_schema["properties"]
    if not properties:
        return
    yield ""
    for name, schema in properties.items():
        kind = " or ".join(f"`{option}`" for option in schema["enum"]) if "enum" in schema else argument_type(schema)
        if schema.get("default", False) is not False:
            kind += f", default `{argument_default(schema)}`"
        shown = f"**`{name}`**" if name in tool.input_schema.get("required", ()) else f"`{name}`"
        yield f"- {shown} ({kind}) {schema.get('description', '')}".rstrip()


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
    yield "The variable of `--text-bytes` is `MCP_AGENT_TEXT_BYTES` and its key `text_bytes`, and so for all; the keys"
    yield "of the fleet are `url`, `box`, `creds`, `label` and `profile` in the table `[fleet]`."
    yield ""
    for setting in DAEMON_SETTINGS:
        yield f"- `{setting.flag}` ({setting.kind.name}, default {setting.shown_default}): {setting.help}"
    yield ""
    yield "`MCP_AGENT_TOKEN` in the environment is used instead of the token file. `mcp-agent` starts itself again,"
    yield "without the variable, and hands the token over through a pipe. So no process that it starts sees it, neither"
    yield "in its own environment nor in `/proc/<pid>/environ` of the daemon. The program that set it, a shell"
    yield "or a service manager, still has it. No flag takes a token, because other users can read command lines."
    yield from ("", "## The pruner", "")
    yield "`mcp-agent` and `mcp-pruner` read these from the environment only. See [pruning](pruning.md)."
    yield ""
    for setting in PRUNER_SETTINGS:
        yield f"- `{setting.variable}` ({setting.kind.name}, default {setting.shown_default}): {setting.help}"
    yield from ("", "## Shipped profiles", "", "| profile | what it allows |", "| --- | --- |")
    for profile in SHIPPED.values():
        yield f"| `{profile.id}` | {profile.description} |"
    yield from ("", "## Clients that receive text", "")
    yield "With `response.form` set to `auto`, clients with one of these names receive results as text, also behind"
    yield "`mcp-remote`; all others receive JSON. A client that cuts long results itself is sent no more than it takes,"
    yield "unless the call names a size; all others at most `text_bytes`. A wait in a"
    yield "session may be as long as here where the client sends a progress token, and 30 s elsewhere."
    yield from ("", "| client | most bytes | most lines | longest wait |", "| --- | --- | --- | --- |")
    for client in TEXT_CLIENTS:
        most = ["" if each is None else f"{each:,}" for each in (client.most_bytes, client.most_lines)]
        sizes = f"{most[0]}{' as JSON' if client.shows_json else ''} | {most[1]}"
        yield f"| `{client.name}` | {sizes} | {client.longest_wait_s} s |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
