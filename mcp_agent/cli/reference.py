"""Write the reference pages under docs/ from the code: `python -m mcp_agent.cli.reference`.

`--check` writes nothing and fails if a page is stale; the tests use it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

from mcp_agent.answers.budget import TEXT_CLIENTS
from mcp_agent.cli.declaration import GATEWAY, OF_GATEWAYS, Argument, Command
from mcp_agent.cli.main import GROUPS, commands_of, every_command
from mcp_agent.cli.tables import argument_default, argument_type
from mcp_agent.settings import DAEMON_SETTINGS, PRUNER_SETTINGS, Setting
from registry.catalog import Catalog, discover, label
from registry.profiles import SHIPPED
from tools.kit import errors
from tools.kit.spec import Tool

_DOCS = Path(__file__).resolve().parents[2] / "docs"
# The settings that most commands take.
_USUAL = ("tools_file", "state_dir", "token_file", "log_level")
# What is said of a value in fewer words, its name says.
_LEAST_WORDS = 5
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
    yield "`mcp-agent COMMAND --help` shows more, with examples. Every command takes `--json`, which changes the form"
    yield "of its output and nothing else, and most take the [settings](settings.md) that say which daemon is meant."
    yield "Lists are coloured on a terminal (not with `NO_COLOR=1`), and separated by tabs in a pipe."
    yield from ("", "Completion, for the shell that you use:", "")
    yield from ("```console", '$ eval "$(mcp-agent completion bash)"   # in ~/.bashrc')
    yield '$ mcp-agent completion zsh > "${fpath[1]}/_mcp-agent"'
    yield from ("$ mcp-agent completion fish > ~/.config/fish/completions/mcp-agent.fish", "```")
    yield from ("", "Exit codes: 0 done; 1 it failed; 2 it was typed wrong, or a file of settings cannot be used;")
    yield "3 no daemon runs, or none answers."
    uses = Counter(each for command in every_command() for each in map(_described, command.arguments) if each)
    shared = {line for line, count in uses.items() if count > 1}
    shared.add(_described(GATEWAY))
    yield from ("", "Flags of several commands:", "", *sorted(shared), "")
    yield f"`--gateway` is a flag of {', '.join(f'`{name}`' for name in OF_GATEWAYS)}."
    for group, words in GROUPS.items():
        yield from ("", f"## {group}")
        for each in (command for word in words for command in commands_of(word)):
            yield from _command(each, shared)


def _command(command: Command, shared: Container[str]) -> Iterator[str]:
    values = [each for each in command.arguments if not each.names[0].startswith("-")]
    shown = [f"[{each.value}]" if each.details.get("nargs") in ("?", "*") else each.value for each in values]
    yield from ("", f"### {' '.join([*command.words, *shown])}", "", command.description)
    lines = {each.names[-1]: _described(each) for each in command.arguments}
    flags = [name for name, line in lines.items() if line in shared]
    settings = [setting.flag for setting in command.settings if setting.name not in _USUAL]
    if len(command.settings) == len(DAEMON_SETTINGS):
        flags, settings = ["all settings", *flags], []
    if also := [*(each if " " in each else f"`{each}`" for each in flags), *(f"`{each}`" for each in settings)]:
        yield f"Also: {', '.join(also)}."
    if own := [line for line in lines.values() if line and line not in shared]:
        yield from ("", *own)


def _described(described: Argument) -> str:
    """The line of a flag; empty for a value whose name says it."""
    value = f" {described.value}" if described.value else ""
    text = str(described.details.get("help", ""))
    if described.names[0].startswith("-"):
        return f"- {', '.join(f'`{name}`' for name in (*described.names[:-1], described.names[-1] + value))}: {text}"
    return f"- `{value.strip()}`: {text}" if len(text.split()) > _LEAST_WORDS else ""


def _tools(catalog: Catalog) -> Iterator[str]:
    yield from ("# Tools", "", _NOTE, "")
    yield "Every tool with its effect and arguments: those in bold are required, those without a type are switches."
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
    effect = f"*{tool.effect}{', destructive' if tool.destructive else ''}*"
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
        is_switch = kind == "boolean" and name not in tool.input_schema.get("required", ())
        yield f"- {shown}{'' if is_switch else f' ({kind})'} {schema.get('description', '')}".rstrip()


def _kind(setting: Setting) -> str:
    return setting.kind.name.replace("whole number", "number").removesuffix(", 0 or more")


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
    yield "What can change while the daemon runs is in [tools.json](tool-registry.md)."
    yield "The variable of `--text-bytes` is `MCP_AGENT_TEXT_BYTES` and its key `text_bytes`, and so for all; the keys"
    yield "of the fleet are `url`, `box`, `creds`, `label` and `profile` in the table `[fleet]`."
    yield ""
    for setting in DAEMON_SETTINGS:
        yield f"- `{setting.flag}` ({_kind(setting)}, default {setting.shown_default}): {setting.help}"
    yield ""
    yield "`MCP_AGENT_TOKEN` in the environment is used instead of the token file. Nothing that the daemon starts sees"
    yield "it, in its own environment or in `/proc/<pid>/environ` of the daemon. No flag takes a token: other users can"
    yield "read command lines."
    yield from ("", "## The pruner", "")
    yield "`mcp-agent` and `mcp-pruner` read these from the environment only. See [pruning](pruning.md)."
    yield ""
    for setting in PRUNER_SETTINGS:
        yield f"- `{setting.variable}` ({_kind(setting)}, default {setting.shown_default}): {setting.help}"
    yield from ("", "## Shipped profiles", "", "| profile | what it allows |", "| --- | --- |")
    for profile in SHIPPED.values():
        yield f"| `{profile.id}` | {profile.description} |"
    yield from ("", "## Clients that receive text", "")
    yield "With `response.form` set to `auto`, clients with one of these names receive results as text, also behind"
    yield "`mcp-remote`, and all others JSON. Without a named size, one that cuts long results is sent what it takes. A"
    yield "wait in a session is at most as long as here for one that sends a progress token, and 30 s for all others."
    yield from ("", "| client | most bytes | most lines | longest wait |", "| --- | --- | --- | --- |")
    for client in TEXT_CLIENTS:
        most = ["" if each is None else f"{each:,}" for each in (client.most_bytes, client.most_lines)]
        sizes = f"{most[0]}{' as JSON' if client.shows_json else ''} | {most[1]}"
        yield f"| `{client.name}` | {sizes} | {client.longest_wait_s} s |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
