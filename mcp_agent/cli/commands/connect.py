"""`mcp-agent connect`: put the daemon into the configuration of a client, show what that would change, take it out."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from mcp_agent.cli.clients import frameworks, own_tokens, reach
from mcp_agent.cli.clients.config_file import Change, ConfigEntry, short_path
from mcp_agent.cli.clients.known_clients import CLIENTS, VARIABLE, Client, client_names, find_client
from mcp_agent.cli.clients.reach import Http, Reach
from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.policy_change import read_registry
from mcp_agent.cli.commands.token import put_into_force
from mcp_agent.cli.declaration import DRY_RUN, TOKENS, YES, CommandReply, argument, command, is_confirmed
from mcp_agent.config import Config, load
from mcp_agent.process.printing import progress
from mcp_agent.security import auth_tokens
from mcp_agent.security.state_folder import mode_if_exposed, secure_state_dir
from mcp_agent.settings import suggest
from registry.catalog import Catalog, discover
from registry.gate import Access, Gate
from registry.profiles import Profiles, default_document
from registry.tools_json import read
from registry.user_error import UsageError, UserError

DEFAULT_NAME = "devbox"
_PROGRAM_S = 60.0

# What was done for one client, for `--json`.
ClientFacts = dict[str, str]


class ConnectOptions(Struct, frozen=True):
    """What the command line asks for, the same for every client."""

    config: Config
    name: str
    profile: str | None = None
    url: str | None = None
    ssh: str | None = None
    is_stdio: bool = False
    # Whether nothing may be written, a token neither.
    is_dry: bool = False
    is_for_project: bool = False

    def token_name(self, client: str) -> str:
        return client if self.name == DEFAULT_NAME else f"{client}-{self.name}"

    def place(self, client: Client) -> ConfigEntry:
        is_for_project = self.is_for_project or client.is_of_project
        return client.place(self.name, Path.cwd() if is_for_project else None)

    def reach(self, client: Client) -> Reach:
        """How this client is to reach the daemon; with a token of its own where it needs one. Raises UserError."""
        profile = self.profile or client.profile
        if self.ssh is not None:
            return reach.by_ssh(self.ssh, profile)
        if self.is_stdio:
            return reach.local_stdio(self.config, profile)
        return self.http(client.id, profile, needs_token=client.secret == "literal")

    def http(self, client: str, profile: str | None, *, needs_token: bool) -> Http:
        config = self.config
        if self.url is not None:
            token = auth_tokens.from_existing_file(config.token_file)
            flags = ("--token-file", str(config.token_file.absolute()))
            return Http(reach.mcp_url(self.url, profile), config.token_file.absolute(), token, flags)
        daemon = daemon_client.find(config)
        base = f"{_scheme(config)}://{config.host}:{config.port}" if daemon is None else daemon.url
        if self.profile is None and not needs_token:
            path = Path(daemon.token_file) if daemon is not None and daemon.token_file else config.token_file
            if not self.is_dry:
                # Made here if no daemon has run yet: a client that reads the file does not start without it.
                secure_state_dir(config)
                auth_tokens.from_file(path)
            return Http(reach.mcp_url(base, profile), path.absolute(), "", reach.token_flags(path.absolute()))
        # A profile that was asked for is the token's; one that only fits the client narrows its URL.
        path = own_tokens.token_path(config, self.token_name(client)).absolute()
        url = reach.mcp_url(base, None if self.profile is not None else profile)
        if self.is_dry:
            return Http(url, path, f"<token of {client}>", ("--token-file", str(path)))
        token = own_tokens.ensure_token(config, self.token_name(client), self.profile)
        put_into_force(daemon)
        return Http(url, path, token, ("--token-file", str(path)))


_NAME = argument("--name", default=DEFAULT_NAME, help=f"what the client calls it (default: {DEFAULT_NAME})")
_PROJECT = argument("--project", action="store_true", help="in the file of the project in the current folder")
_CLIENTS = argument(
    "clients", nargs="*", metavar="CLIENT", completed="clients", help="for example: claude-code, codex, gemini-cli"
)


@command(
    "connect",
    _CLIENTS,
    argument("--all", action="store_true", help="every client that is installed"),
    DRY_RUN,
    argument("--print", action="store_true", help="print what to paste, and write no file"),
    argument("--stdio", action="store_true", help="let the client start a server of its own"),
    argument("--ssh", metavar="HOST", help="reach the daemon of another machine by way of ssh"),
    argument("--url", metavar="URL", help="reach the daemon there; its token is in --token-file"),
    _NAME,
    _PROJECT,
    YES,
    settings=(*TOKENS, "profile"),
    usage="mcp-agent connect [CLIENT…] [flags]  |  mcp-agent connect remove [CLIENT…] [flags]",
    examples=("mcp-agent connect claude-code --dry-run", "mcp-agent connect codex --ssh devbox"),
)
def connect(options: Namespace) -> CommandReply:
    """Connect clients. Without a name: find those that are installed, show what it would do, ask."""
    wanted = _options(options, options)
    if sum((wanted.url is not None, wanted.ssh is not None, wanted.is_stdio)) > 1:
        raise UsageError("--url, --ssh and --stdio are three ways to reach a daemon: choose one")
    if wanted.profile is not None and wanted.url is None and wanted.ssh is None:
        # Raises UnknownName for a profile that does not exist.
        _registry(wanted)[0][wanted.profile]
    if options.clients and options.all:
        raise UsageError("name clients, or say --all, not both")
    if options.print or any(map(_is_printed, options.clients)):
        return _print(options.clients, wanted)
    chosen = _chosen(options.clients, wanted)
    if chosen and not options.clients and not options.all and not options.yes:
        return _ask(chosen, wanted, as_json=options.json)
    _print_cost(chosen, wanted)
    return _each(chosen, lambda client: _connect(client, wanted))


@command(
    "connect remove",
    _CLIENTS,
    argument("--all", action="store_true", help="every client that has it"),
    DRY_RUN,
    _NAME,
    _PROJECT,
    YES,
    settings=TOKENS,
    examples=("mcp-agent connect remove codex", "mcp-agent connect remove --dry-run"),
)
def remove(options: Namespace) -> CommandReply:
    """Take the daemon out of the configuration of clients, with the tokens that were made for them. Without a name:
    find those that have it, and ask.
    """
    wanted = _options(options)
    chosen = [client for client in _chosen(options.clients, wanted) if options.clients or _has_entry(client, wanted)]
    if chosen and not (options.clients or options.all or options.yes or wanted.is_dry):
        print(f"These have {wanted.name}: {', '.join(client.title for client in chosen)}")
        if not is_confirmed("Take it out of them?", as_json=options.json):
            print("Nothing was changed.")
            return CommandReply({"clients": []})
    return _each(chosen, lambda client: _remove(client, wanted))


def remove_everywhere(config: Config, name: str) -> None:
    """Take the entry of that name out of every client of this user."""
    wanted = ConnectOptions(config, name)
    _each([client for client in CLIENTS if _has_entry(client, wanted)], lambda client: _remove(client, wanted))


def connected_clients(config: Config, name: str) -> list[Client]:
    """The clients of this user that have an entry of that name."""
    return [client for client in CLIENTS if _has_entry(client, ConnectOptions(config, name))]


def _options(options: Namespace, ways: Namespace | None = None) -> ConnectOptions:
    """`ways` has the flags that say how the daemon is reached."""
    wanted = ConnectOptions(load(vars(options)), options.name, is_dry=options.dry_run, is_for_project=options.project)
    if ways is None:
        return wanted
    return replace(wanted, profile=ways.profile, url=ways.url, ssh=ways.ssh, is_stdio=ways.stdio)


def _chosen(names: list[str], wanted: ConnectOptions) -> list[Client]:
    """The clients of these names, or else those that are installed."""
    if names:
        return [_find(name) for name in names]
    chosen = [client for client in CLIENTS if client.is_installed and _has_place(client, wanted)]
    if not chosen:
        print(f"no client was found on this machine; name one: {', '.join(client_names())}")
    return chosen


def _has_entry(client: Client, wanted: ConnectOptions) -> bool:
    try:
        return wanted.place(client).entry() is not None
    except UserError:
        return False


def _has_place(client: Client, wanted: ConnectOptions) -> bool:
    """Whether it is meant where no client is named: a project's file is not written into whatever folder this is."""
    if wanted.is_for_project:
        return client.project_file is not None
    return not client.is_of_project or (Path.cwd() / ".vscode").is_dir()


def _ask(clients: list[Client], wanted: ConnectOptions, *, as_json: bool) -> CommandReply:
    """Show what would be done, and do it if the answer is yes."""
    print("Clients on this machine:")
    for client in clients:
        place = wanted.place(client)
        try:
            state = "connected" if place.entry() is not None else "not connected"
        except UserError as error:
            state = str(error)
        print(f"  {client.id:14} {short_path(place.path):45} {state}")
    print()
    _print_cost(clients, wanted)
    shown = _each(clients, lambda client: _connect(client, replace(wanted, is_dry=True)))
    if wanted.is_dry:
        return shown
    if not sys.stdin.isatty():
        print("Nothing was written. `mcp-agent connect --all` does it, or name the clients.")
        return shown._replace(code=0)
    if not is_confirmed(f"Connect {', '.join(client.title for client in clients)}?", as_json=as_json):
        print("Nothing was written.")
        return shown._replace(code=0)
    return _each(clients, lambda client: _connect(client, wanted))


def _each(clients: list[Client], action: Callable[[Client], ClientFacts]) -> CommandReply:
    """Do it for every client. One that cannot be helped does not keep the others from it."""
    facts: list[ClientFacts] = []
    for client in clients:
        try:
            facts.append({"client": client.id, **action(client)})
        except UserError as error:
            if len(clients) == 1:
                raise
            print(f"✗ {client.title}: {error}")
            facts.append({"client": client.id, "state": "failed", "problem": str(error)})
    return CommandReply({"clients": facts}, int(any(each["state"] == "failed" for each in facts)))


def _connect(client: Client, wanted: ConnectOptions) -> ClientFacts:
    place = wanted.place(client)
    facts = {"file": str(place.path)}
    # Before a token is made: a file that cannot be changed needs none.
    place.put({})
    how = wanted.reach(client)
    entry = how.entry(client)
    with contextlib.nullcontext() if wanted.is_dry else place.locked():
        change = place.put(entry)
        if change.is_none:
            print(f"✓ {client.title}: {short_path(place.path)} has it already")
            return {**facts, "state": "unchanged"}
        if wanted.is_dry:
            print(change.diff, end="")
            return {**facts, "state": "would change", "diff": change.diff}
        if not _by_program(client, wanted, place, entry):
            backup = change.apply()
            print(f"✓ {client.title}: wrote {short_path(place.path)}")
            _print_backup(backup)
    own = own_tokens.token_path(wanted.config, wanted.token_name(client.id)).absolute()
    if not (isinstance(how, Http) and how.token_file == own):
        # It may have been connected in another way before.
        _revoke_token(client, wanted)
    _print_advice(client, wanted, how, place)
    return {**facts, "state": "connected"}


def _remove(client: Client, wanted: ConnectOptions) -> ClientFacts:
    place = wanted.place(client)
    facts = {"file": str(place.path)}
    change = place.remove()
    if change.is_none:
        print(f"✓ {client.title}: there is no {wanted.name} in {short_path(place.path)}")
        return {**facts, "state": "unchanged"}
    if wanted.is_dry:
        print(change.diff, end="")
        return {**facts, "state": "would change", "diff": change.diff}
    with place.locked():
        if not _by_program(client, wanted, place, None):
            change = place.remove()
            backup = change.apply()
            verb = "deleted" if change.after is None else f"took {wanted.name} out of"
            print(f"✓ {client.title}: {verb} {short_path(place.path)}")
            _print_backup(backup)
    _revoke_token(client, wanted)
    return {**facts, "state": "removed"}


def _revoke_token(client: Client, wanted: ConnectOptions) -> None:
    """Revoke the token that was made for it, if there is one."""
    if own_tokens.drop_token(wanted.config, wanted.token_name(client.id)):
        put_into_force(daemon_client.find(wanted.config))
        print(f"  revoked the token {wanted.token_name(client.id)}")


def _by_program(client: Client, wanted: ConnectOptions, place: ConfigEntry, entry: dict[str, object] | None) -> bool:
    """Let Claude Code change its own file, which it also writes while it runs. False if it does not."""
    program = shutil.which("claude")
    if client.id != "claude-code" or program is None or wanted.is_for_project:
        return False
    before = place.entry()
    backup = Change(place.path, place.path.read_text("utf-8"), None).keep() if place.path.exists() else None
    add = ["mcp", "add-json", "-s", "user", wanted.name, json.dumps(entry)]
    steps = [["mcp", "remove", "-s", "user", wanted.name]] if before is not None else []
    for arguments in [*steps, *([add] if entry is not None else [])]:
        try:
            with progress(f"running {Path(program).name} mcp {arguments[1]}"):
                done = subprocess.run(
                    [program, *arguments],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=_PROGRAM_S,
                    check=False,
                )
        except (OSError, subprocess.TimeoutExpired):
            return False
        if done.returncode:
            return False
    if place.entry() != entry:
        return False
    shown = "mcp remove" if entry is None else "mcp add-json"
    print(f"✓ {client.title}: `claude {shown} -s user {wanted.name}` changed {short_path(place.path)}")
    _print_backup(backup)
    return True


def _print(names: list[str], wanted: ConnectOptions) -> CommandReply:
    if not names:
        raise UsageError(f"--print needs the name of a client or framework: {', '.join(client_names())}")
    printed: dict[str, str] = {}
    for name in names:
        if _is_printed(name):
            is_web = name == frameworks.OPEN_WEBUI
            how = wanted.http(name, wanted.profile, needs_token=is_web)
            printed[name] = frameworks.PRINTED[name](wanted.name, how)
            advice = (
                "Import this file at Settings → Admin → Tools → Integrations → External Tool Servers → + → Import. "
                "It is for the admin alone until you share it.\n"
                "For files, live commands and a shell beside the chat, add Open Terminal there: URL "
                f"{how.url.removesuffix('/mcp')}/open-terminal, with the same key."
            )
            advice = advice if is_web else ""
        else:
            client = _find(name)
            place = wanted.place(client)
            entry = wanted.reach(client).entry(client)
            printed[name] = ConfigEntry(Path("/nonexistent"), place.format, place.keys).put(entry).after or ""
            advice = f"This belongs into {place.path}."
        print(printed[name], end="")
        if advice:
            print(advice, file=sys.stderr)
    return CommandReply(printed)


def _print_cost(clients: list[Client], wanted: ConnectOptions) -> None:
    """What the tools of each profile cost; of a daemon elsewhere that is not known here."""
    if wanted.url is not None or wanted.ssh is not None:
        return
    profiles, catalog = _registry(wanted)
    gate = Gate(catalog, profiles)

    def cost(access: Access) -> tuple[int, int]:
        tools = gate.visible(access)
        return len(tools), sum(tool.list_tokens for tool in tools)

    count, tokens = cost(Access())
    for profile in dict.fromkeys(wanted.profile or client.profile for client in clients):
        access = Access(wanted.profile) if wanted.profile is not None else Access(None, profile)
        fewer, cheaper = cost(access)
        names = ", ".join(client.title for client in clients if (wanted.profile or client.profile) == profile)
        print(f"{names}: profile {profile or profiles.active}, {fewer} tools, about {cheaper:,} tokens", end="")
        print("" if cheaper == tokens else f" instead of {tokens:,} for all {count}")


def _registry(wanted: ConnectOptions) -> tuple[Profiles, Catalog]:
    """The profiles and the tools in force; without a tools.json those that a first start has, and none is written."""
    daemon = daemon_client.find(wanted.config)
    if daemon is None and not wanted.config.tools_file.exists():
        return read(default_document(discover()), discover()), discover()
    _, profiles, catalog = read_registry(wanted.config, daemon)
    return profiles, catalog


def _print_advice(client: Client, wanted: ConnectOptions, how: Reach, place: ConfigEntry) -> None:
    if isinstance(how, Http):
        if client.secret == "variable":
            print(f'  it reads the token from the environment: export {VARIABLE}="$(cat {how.token_file})"')
        if client.secret == "literal" and mode_if_exposed(place.path) is not None:
            print(f"  its token is in a file that others can read; run: chmod 600 {place.path}")
        if wanted.url is None and daemon_client.address(wanted.config) is None:
            print(f"  no daemon runs now; start it: {reach.program()} serve")
    print(f"  see that it works: {client.check.replace(DEFAULT_NAME, wanted.name)}")
    flags = " --project" if wanted.is_for_project else ""
    named = "" if wanted.name == DEFAULT_NAME else f" --name {wanted.name}"
    print(f"  take it out again: mcp-agent connect remove {client.id}{flags}{named}")


def _print_backup(path: Path | None) -> None:
    if path is not None:
        print(f"  the old file is kept as {short_path(path)}")


def _is_printed(name: str) -> bool:
    return name in frameworks.PRINTED


def _find(name: str) -> Client:
    client = find_client(name)
    if client is None:
        names = client_names()
        raise UsageError(f"there is no client {name!r}{suggest(name, names) or '; there are: ' + ', '.join(names)}")
    return client


def _scheme(config: Config) -> str:
    return "http" if config.tls_cert is None else "https"
