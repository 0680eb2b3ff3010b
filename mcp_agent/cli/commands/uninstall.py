"""`mcp-agent uninstall`: says what is where, and removes what we wrote. What a person wrote stays, and is named."""

from __future__ import annotations

import shutil
import sys
from argparse import Namespace
from itertools import chain
from pathlib import Path

from mcp_agent.cli.clients.config_file import short_path
from mcp_agent.cli.commands import running, service
from mcp_agent.cli.commands.connect import connected_clients, remove_everywhere
from mcp_agent.cli.commands.connect_options import DEFAULT_NAME
from mcp_agent.cli.declaration import DRY_RUN, TOKENS, YES, CommandReply, command, is_confirmed
from mcp_agent.cli.tables import Cell, Row, print_table
from mcp_agent.config import Config, config_folder, load
from mcp_agent.process.runtime_file import any_daemon

# What a state folder has of us. Whatever else is in it is not ours.
_IN_STATE = (
    "artifacts audit client-tokens copies cursor.key daemon.json daemon.log daemon.log.1 fleet gateway journal "
    "mcp-sessions.json mounts oauth.json page-logouts.json program-help.json pruned serve.lock serve.log sessions "
    "token tokens.json"
).split()
_POLICY = ("tools.json", "gateway-tools.json")


@command(
    "uninstall",
    DRY_RUN,
    YES,
    settings=TOKENS,
    examples=("mcp-agent uninstall --dry-run", "mcp-agent uninstall --yes"),
)
def uninstall(options: Namespace) -> CommandReply:
    """Say what is where, and remove what we wrote: entries in clients, the service, the state folder, tools.json."""
    config = load(vars(options))
    daemon = any_daemon(config.runtime_file)
    clients = connected_clients(config, DEFAULT_NAME)
    unit = service.unit_path()
    state, policy = _own_files(config)
    places = {
        "daemon": [] if daemon is None else [f"process {daemon.pid}"],
        "clients": [str(client.place(DEFAULT_NAME).path) for client in clients if not client.is_of_project],
        "service": [str(unit)] if unit.exists() else [],
        "state": [str(path) for path in state],
        "policy": [str(path) for path in policy],
    }
    own = (config_folder() / "config.toml", config.tools_file)
    kept = [str(path) for path in own if path.exists() and path not in policy]
    _print_places(config, places)
    facts = {"places": places, "kept": kept, "removed": False}
    if not any(places.values()):
        print("Nothing of mcp-agent is left but the program.")
    elif options.dry_run or not (
        options.yes or is_confirmed("Remove all of this?", as_json=options.json, is_final=True)
    ):
        print("Nothing was removed.")
        return CommandReply(facts)
    else:
        _remove(config, is_running=daemon is not None, unit=unit)
        facts["removed"] = True
    for each in kept:
        print(f"Kept, because you wrote it: {each}")
    print("Sections in AGENTS.md of projects stay, between <!-- mcp-agent: begin --> and <!-- mcp-agent: end -->.")
    print(f"The program is in {sys.prefix}; remove it the way it was installed, such as: {_program_removal()}")
    return CommandReply(facts)


def _own_files(config: Config) -> tuple[list[Path], list[Path]]:
    """What we wrote into the state folder, and the files with the policy: elsewhere they may be another program's."""
    state = [config.state_dir / name for name in _IN_STATE]
    policy = [config_folder() / name for name in _POLICY]
    return [path for path in state if path.exists()], [path for path in policy if path.exists()]


def _print_places(config: Config, places: dict[str, list[str]]) -> None:
    what = {
        "daemon": "ended, with its sessions",
        "clients": f"the entry {DEFAULT_NAME} is taken out",
        "service": "stopped and deleted",
        "state": f"{len(places['state'])} files and folders: tokens, audit log, and the contents kept for undo",
        "policy": "deleted: profiles and switches",
    }
    shown = {**places, "state": [str(config.state_dir)] if places["state"] else []}
    rows: list[Row] = [
        [Cell(kind, "cyan"), short_path(Path(place)) if place.startswith("/") else place, what[kind]]
        for kind, found in shown.items()
        for place in found
    ]
    print_table(rows, "")


def _remove(config: Config, *, is_running: bool, unit: Path) -> None:
    remove_everywhere(config, DEFAULT_NAME)
    if unit.exists():
        service.remove_unit(unit)
    if is_running and any_daemon(config.runtime_file) is not None:
        running.stop_daemon(config)
    # Read again: the daemon has written its last lines.
    for path in chain(*_own_files(config)):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    for folder in (config.state_dir, config_folder()):
        # One with something else in it stays.
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    print("Removed.")


def _program_removal() -> str:
    """How the program was probably installed: each of these tools has its environments in a folder of its own."""
    if "/uv/tools/" in sys.prefix:
        return "uv tool uninstall mcp-agent-host"
    return (
        "pipx uninstall mcp-agent-host"
        if "/pipx/" in sys.prefix
        else f"{sys.executable} -m pip uninstall mcp-agent-host"
    )
