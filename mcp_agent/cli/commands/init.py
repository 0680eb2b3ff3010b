"""`mcp-agent init`: AGENTS.md and two clients' files for the project in the current folder, one question each."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from mcp_agent.cli.clients import agents_md, reach
from mcp_agent.cli.clients.config_file import Change, project_file, short_path
from mcp_agent.cli.clients.known_clients import find_client
from mcp_agent.cli.commands.connect_options import DEFAULT_NAME
from mcp_agent.cli.declaration import CommandReply, argument, command
from mcp_agent.config import Config, load
from registry.user_error import UserError
from tools.files import disk

_TITLE = "mcp-agent Initialization"
_AGENTS_MD = "AGENTS.md"


@command(
    "init",
    argument("--write-mcp-vscode", action="store_true", help="write .vscode/mcp.json"),
    argument("--write-mcp-copilot", action="store_true", help="write ~/.copilot/mcp-config.json"),
    argument("--write-mcp-all", action="store_true", help="write both"),
    argument("-y", "--yes", action="store_true", help="do not ask; alone, write no client's file"),
    examples=("mcp-agent init", "mcp-agent init -y --write-mcp-vscode"),
)
def init(options: Namespace) -> CommandReply:
    """Set up AGENTS.md and clients for the project in this folder."""
    config = load(vars(options))
    has_flags = options.write_mcp_vscode or options.write_mcp_copilot or options.write_mcp_all
    steps: list[tuple[str, bool, Callable[[], Change]]] = [
        ("AGENTS.md section", options.yes, lambda: _plan_agents_md(config)),
        (
            "VS Code MCP config",
            options.write_mcp_vscode or options.write_mcp_all,
            lambda: _plan_client(config, "vscode"),
        ),
        (
            "GitHub Copilot CLI MCP config",
            options.write_mcp_copilot or options.write_mcp_all,
            lambda: _plan_client(config, "copilot-cli"),
        ),
    ]
    asks = not (options.yes or has_flags)
    print(f"\n{_TITLE}\n{'=' * len(_TITLE)}")
    facts: list[dict[str, str]] = []
    for number, (what, is_flagged, plan) in enumerate(steps, 1):
        question = f"\n[{number}/{len(steps)}] Write {what}?"
        is_wanted = _ask(question, sys.stderr if options.json else sys.stdout) if asks else is_flagged
        if not asks:
            print(f"{question} {'y' if is_wanted else 'n'}")
        if not is_wanted:
            print("⊘ Skipped")
            facts.append({"step": what, "state": "skipped"})
            continue
        try:
            change = plan()
            backup = change.apply()
        except UserError as error:
            print(f"✗ {error}")
            facts.append({"step": what, "state": "failed", "problem": str(error)})
            continue
        verb = "Unchanged:" if change.is_none else "Created" if change.before is None else "Updated"
        print(f"✓ {verb} {_short(change.path)}")
        facts.append({"step": what, "state": verb.rstrip(":").lower(), "file": str(change.path)})
        if backup is not None:
            print(f"  the old file is kept as {_short(backup)}")
    failed = sum(each["state"] == "failed" for each in facts)
    if failed:
        print(f"\nNot done: {failed} of {len(steps)} steps failed, for the reasons above.")
    else:
        print("\nDone! Run 'mcp-agent doctor' to verify setup.")
    return CommandReply(facts, int(failed > 0))


def _ask(question: str, screen: TextIO) -> bool:
    print(f"{question} [Y/n] ", end="", flush=True, file=screen)
    answer = sys.stdin.readline()
    if not sys.stdin.isatty():
        # A terminal shows what is typed; here the screen would lack it.
        print(answer.strip(), file=screen)
    # The end of input is no answer, and so no consent.
    return bool(answer) and answer.strip().lower() in ("", "y", "yes")


def _plan_agents_md(config: Config) -> Change:
    path = project_file(Path.cwd(), _AGENTS_MD)
    try:
        before = disk.read_small_file(path).decode()
    except FileNotFoundError:
        before = None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is left alone: {error}") from None
    after = agents_md.with_section(before or "", DEFAULT_NAME)
    return Change(path, before, after, format=None, backups=config.client_backups_dir)


def _plan_client(config: Config, name: str) -> Change:
    client = find_client(name)
    assert client is not None, "it is one of those that we know"
    place = client.place(DEFAULT_NAME, Path.cwd() if client.is_of_project else None, config.client_backups_dir)
    return place.put(reach.local_stdio(config, None, is_shared=True).entry(client))


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else short_path(path)
