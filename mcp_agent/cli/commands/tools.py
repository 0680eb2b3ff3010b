"""`mcp-agent tools` shows the tools that a client sees; `mcp-agent check` prints the problems of a tools.json."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path

from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.mount_status import mount_states, print_mounts, show_changes
from mcp_agent.cli.commands.policy_change import read_registry
from mcp_agent.cli.declaration import COMMON, CommandReply, argument, command
from mcp_agent.cli.tables import Cell, Row, argument_default, argument_type, print_table
from mcp_agent.config import Config, load
from mcp_agent.process.printing import one_line
from registry.catalog import discover
from registry.gate import Access, Gate
from registry.profiles import BadRegistry
from registry.tools_json_file import RegistryFile
from registry.user_error import UsageError
from tools.kit.spec import Tool
from tools.kit.spelling import did_you_mean


@command(
    "tools",
    argument("tool", nargs="?", metavar="TOOL", completed="tools", help="show this one, with its arguments"),
    argument(
        "--changed",
        action="store_true",
        help="show the tools of mounted servers that are not as you have last seen them",
    ),
    argument("--accept", action="store_true", help="with --changed: you have seen them as they are now"),
    settings=COMMON,
    examples=("mcp-agent tools --profile lean", "mcp-agent tools fs_patch"),
)
def tools(options: Namespace) -> CommandReply:
    """Show the tools that a client would see and what they cost in tokens, or one of them with its arguments."""
    config = load(vars(options))
    daemon = daemon_client.find_by(options, config)
    if options.gateway and not options.changed:
        return _tools_of_boxes(config, daemon, options.tool)
    _, profiles, catalog = read_registry(config, daemon)
    if options.changed:
        return show_changes(config, profiles, daemon, is_accepted=options.accept)
    profile = profiles[config.profile or profiles.active].id
    visible = Gate(catalog, profiles).visible(Access(profile))
    from mcp_agent.protocol.methods import tool_entry

    if options.tool is not None:
        tool = catalog.by_name.get(options.tool)
        if tool is None:
            raise UsageError(f"there is no tool {options.tool!r}{did_you_mean(options.tool, list(catalog.names))}")
        _print_tool(tool, profile, is_visible=tool in visible)
        return CommandReply(tool_entry(tool))
    print(f"profile {profile}: {len(visible)} tools (tokens are an estimate)")
    rows: list[Row] = [
        [
            Cell(tool.name, "cyan"),
            tool.category,
            tool.effect,
            Cell(f"{tool.list_tokens} tokens", to_right=True),
            Cell(" ".join(tool.description.partition("\n\n")[0].split()), "dim"),
        ]
        for tool in visible
    ]
    total = sum(tool.list_tokens for tool in visible)
    rows.append([Cell("together", "bold"), "", "", Cell(f"{total} tokens", "bold", to_right=True)])
    print_table(rows, "")
    if profiles.mounts:
        print("mounted servers")
        print_mounts(mount_states(config, profiles, catalog, daemon))
    return CommandReply({"tools": [tool_entry(tool) for tool in visible]})


def _tools_of_boxes(config: Config, gateway: daemon_client.RunningDaemon | None, name: str | None) -> CommandReply:
    """What its owner sees of a gateway that runs: only that one knows the tools of its boxes."""
    if gateway is None:
        raise daemon_client.NoDaemon(config, ", and only a running gateway knows the tools of its boxes")
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    entries = gateway.ask("POST", "/rpc", message)["result"]["tools"]
    names = [entry["name"] for entry in entries]
    if name is not None and name not in names:
        raise UsageError(f"there is no tool {name!r}{did_you_mean(name, names)}")
    shown = [entry for entry in entries if name in (None, entry["name"])]
    print_table([[Cell(each["name"], "cyan"), " ".join(each["description"].split())] for each in shown], "no tools")
    return CommandReply({"tools": shown})


def _print_tool(tool: Tool, profile: str, *, is_visible: bool) -> None:
    state = "on" if is_visible else "off"
    print(f"{tool.name}: {tool.category}, {tool.effect}, {tool.list_tokens} tokens, {state} in the profile {profile}")
    print(f"\n{(tool.whole_description or tool.description).strip()}\n")
    required = tool.input_schema.get("required", ())
    rows: list[Row] = [
        [
            Cell(name, "cyan"),
            argument_type(schema),
            "required" if name in required else argument_default(schema),
            str(schema.get("description", "")),
        ]
        for name, schema in tool.input_schema.get("properties", {}).items()
    ]
    print_table(rows, "it takes no arguments")


@command(
    "check",
    argument("file", nargs="?", metavar="FILE", help="the file (default: the one the daemon uses)"),
    examples=("mcp-agent check", "mcp-agent check ./tools.json --json"),
)
def check(options: Namespace) -> CommandReply:
    """Check a tools.json and print every problem in it."""
    path = Path(options.file) if options.file else daemon_client.registry_path(options, load(vars(options)))
    if not os.path.exists(path):  # noqa: PTH110 - Path.exists raises for a name that is too long
        raise UsageError(f"{path} is not there")
    try:
        profiles = RegistryFile(path, discover()).load()
        problems, is_good = profiles.warnings, True
        print(f"{path} is good: {len(profiles.by_id)} profiles, {profiles.active} is active")
    except BadRegistry as error:
        problems, is_good = error.problems, False
    if not options.json:
        for problem in problems:
            print(one_line(f"{path} {problem}{' (warning)' if problem.is_warning else ''}"), file=sys.stderr)
    facts = {"file": str(path), "good": is_good, "problems": [problem.as_object() for problem in problems]}
    return CommandReply(facts, 0 if is_good else UsageError.exit_code)
