"""`mcp-agent connect`: put the daemon into the configuration of a client, show what that would change, take it out."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from mcp_agent.cli.clients import frameworks, own_tokens, reach
from mcp_agent.cli.clients.config_file import Change, Place, short_path
from mcp_agent.cli.clients.known_clients import CLIENTS, VARIABLE, Client, find_client
from mcp_agent.cli.clients.reach import Http, Reach
from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.changing import read_registry
from mcp_agent.cli.commands.token import put_into_force
from mcp_agent.config import Config, load
from mcp_agent.process.printing import progress
from mcp_agent.security import auth_tokens
from mcp_agent.security.state_folder import mode_if_exposed, secure_state_dir
from registry.catalog import Catalog, discover
from registry.gate import Access, Gate
from registry.profiles import Profiles, default_document
from registry.tools_json import read
from registry.user_error import UserError

DEFAULT_NAME = "devbox"
_PROGRAM_S = 60.0


class _Wish(Struct, frozen=True):
    """What the command line asks for, the same for every client."""

    config: Config
    name: str
    profile: str | None
    url: str | None
    ssh: str | None
    is_stdio: bool
    # Whether nothing may be written, a token neither.
    is_dry: bool
    is_for_project: bool = False

    def token_name(self, client: str) -> str:
        return client if self.name == DEFAULT_NAME else f"{client}-{self.name}"

    def place(self, client: Client) -> Place:
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


def connect(options: argparse.Namespace) -> int:
    config = load(vars(options))
    wish = _Wish(
        config,
        options.name,
        options.profile,
        options.url,
        options.ssh,
        options.stdio,
        options.dry_run,
        options.project,
    )
    _check(wish)
    if options.clients and options.all:
        raise UserError("name clients, or say --all, not both")
    if options.print:
        return _print(options.clients, wish)
    printed = [name for name in options.clients if _is_printed(name)]
    if printed and not options.remove:
        return _print(options.clients, wish)
    if options.clients:
        chosen = [_find(name) for name in options.clients]
    else:
        chosen = [client for client in CLIENTS if client.is_installed and _has_place(client, wish)]
        if not chosen:
            print(f"no client was found on this machine; name one: {_names()}")
            return 0
    if options.remove:
        return _each(chosen, lambda client: _remove(client, wish, is_asked=bool(options.clients)))
    if not options.clients and not options.all and not options.yes:
        return _ask(chosen, wish)
    _print_cost(chosen, wish)
    return _each(chosen, lambda client: _connect(client, wish))


def _check(wish: _Wish) -> None:
    if sum((wish.url is not None, wish.ssh is not None, wish.is_stdio)) > 1:
        raise UserError("--url, --ssh and --stdio are three ways to reach a daemon: choose one")
    if wish.profile is not None and wish.url is None and wish.ssh is None:
        # Raises UnknownName for a profile that does not exist.
        _registry(wish)[0][wish.profile]


def _has_place(client: Client, wish: _Wish) -> bool:
    """Whether it is meant where no client is named: a project's file is not written into whatever folder this is."""
    if wish.is_for_project:
        return client.project_file is not None
    return not client.is_of_project or (Path.cwd() / ".vscode").is_dir()


def _ask(clients: list[Client], wish: _Wish) -> int:
    """Show what would be done, and do it if the answer is yes."""
    dry = _Wish(wish.config, wish.name, wish.profile, wish.url, wish.ssh, wish.is_stdio, True, wish.is_for_project)
    print("Clients on this machine:")
    for client in clients:
        place = wish.place(client)
        try:
            state = "connected" if place.entry() is not None else "not connected"
        except UserError as error:
            state = str(error)
        print(f"  {client.id:14} {short_path(place.path):45} {state}")
    print()
    _print_cost(clients, wish)
    _each(clients, lambda client: _connect(client, dry))
    if wish.is_dry:
        return 0
    if not sys.stdin.isatty():
        print("Nothing was written. `mcp-agent connect --all` does it, or name the clients.")
        return 0
    print(f"Connect {', '.join(client.title for client in clients)}? [Y/n] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() not in ("", "y", "yes"):
        print("Nothing was written.")
        return 0
    return _each(clients, lambda client: _connect(client, wish))


def _each(clients: list[Client], action: Callable[[Client], None]) -> int:
    """Do it for every client. One that cannot be helped does not keep the others from it."""
    failed = 0
    for client in clients:
        try:
            action(client)
        except UserError as error:
            if len(clients) == 1:
                raise
            print(f"✗ {client.title}: {error}")
            failed += 1
    return 1 if failed else 0


def _connect(client: Client, wish: _Wish) -> None:
    place = wish.place(client)
    # Before a token is made: a file that cannot be changed needs none.
    place.put({})
    how = wish.reach(client)
    entry = how.entry(client)
    change = place.put(entry)
    if change.is_none:
        print(f"✓ {client.title}: {short_path(place.path)} has it already")
        return
    if wish.is_dry:
        print(change.diff(_secrets(how)), end="")
        return
    if not _by_program(client, wish, place, entry):
        backup = change.apply()
        print(f"✓ {client.title}: wrote {short_path(place.path)}")
        _print_backup(backup)
    own = own_tokens.token_path(wish.config, wish.token_name(client.id)).absolute()
    if not (isinstance(how, Http) and how.token_file == own):
        # It may have been connected in another way before.
        _revoke_token(client, wish)
    _print_advice(client, wish, how, place)


def _remove(client: Client, wish: _Wish, *, is_asked: bool) -> None:
    place = wish.place(client)
    change = place.remove()
    if change.is_none:
        if is_asked:
            print(f"✓ {client.title}: there is no {wish.name} in {short_path(place.path)}")
        return
    if wish.is_dry:
        print(change.diff(), end="")
        return
    if not _by_program(client, wish, place, None):
        backup = change.apply()
        verb = "deleted" if change.after is None else f"took {wish.name} out of"
        print(f"✓ {client.title}: {verb} {short_path(place.path)}")
        _print_backup(backup)
    _revoke_token(client, wish)


def _revoke_token(client: Client, wish: _Wish) -> None:
    """Revoke the token that was made for it, if there is one."""
    if own_tokens.drop_token(wish.config, wish.token_name(client.id)):
        put_into_force(daemon_client.find(wish.config))
        print(f"  revoked the token {wish.token_name(client.id)}")


def _by_program(client: Client, wish: _Wish, place: Place, entry: dict[str, object] | None) -> bool:
    """Let Claude Code change its own file, which it also writes while it runs. False if it does not."""
    program = shutil.which("claude")
    if client.id != "claude-code" or program is None or wish.is_for_project:
        return False
    before = place.entry()
    backup = Change(place.path, place.path.read_text("utf-8"), None).keep() if place.path.exists() else None
    add = ["mcp", "add-json", "-s", "user", wish.name, json.dumps(entry)]
    steps = [["mcp", "remove", "-s", "user", wish.name]] if before is not None else []
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
    print(f"✓ {client.title}: `claude {shown} -s user {wish.name}` changed {short_path(place.path)}")
    _print_backup(backup)
    return True


def _print(names: list[str], wish: _Wish) -> int:
    if not names:
        raise UserError(f"--print needs the name of a client or framework: {_names()}")
    for name in names:
        if _is_printed(name):
            is_web = name == frameworks.OPEN_WEBUI
            how = wish.http(name, wish.profile, needs_token=is_web)
            print(frameworks.PRINTED[name](wish.name, how), end="")
            if is_web:
                print(
                    "Import this file at Settings → Admin → Tools → Integrations → External Tool Servers → + → Import. "
                    "It is for the admin alone until you share it.\n"
                    "For files, live commands and a shell beside the chat, add Open Terminal there: URL "
                    f"{how.url.removesuffix('/mcp')}/open-terminal, with the same key.",
                    file=sys.stderr,
                )
            continue
        client = _find(name)
        place = wish.place(client)
        entry = wish.reach(client).entry(client)
        print(Place(Path("/nonexistent"), place.format, place.keys).put(entry).after, end="")
        print(f"This belongs into {place.path}.", file=sys.stderr)
    return 0


def _print_cost(clients: list[Client], wish: _Wish) -> None:
    """What the tools of each profile cost; of a daemon elsewhere that is not known here."""
    if wish.url is not None or wish.ssh is not None:
        return
    profiles, catalog = _registry(wish)
    gate = Gate(catalog, profiles)

    def cost(access: Access) -> tuple[int, int]:
        tools = gate.visible(access)
        return len(tools), sum(tool.list_tokens for tool in tools)

    count, tokens = cost(Access())
    for profile in dict.fromkeys(wish.profile or client.profile for client in clients):
        access = Access(wish.profile) if wish.profile is not None else Access(None, profile)
        fewer, cheaper = cost(access)
        names = ", ".join(client.title for client in clients if (wish.profile or client.profile) == profile)
        print(f"{names}: profile {profile or profiles.active}, {fewer} tools, about {cheaper:,} tokens", end="")
        print("" if cheaper == tokens else f" instead of {tokens:,} for all {count}")


def _registry(wish: _Wish) -> tuple[Profiles, Catalog]:
    """The profiles and the tools in force; without a tools.json those that a first start has, and none is written."""
    daemon = daemon_client.find(wish.config)
    if daemon is None and not wish.config.config.exists():
        return read(default_document(discover()), discover()), discover()
    _, profiles, catalog = read_registry(wish.config, daemon)
    return profiles, catalog


def _print_advice(client: Client, wish: _Wish, how: Reach, place: Place) -> None:
    if isinstance(how, Http):
        if client.secret == "variable":
            print(f'  it reads the token from the environment: export {VARIABLE}="$(cat {how.token_file})"')
        if client.secret == "literal" and mode_if_exposed(place.path) is not None:
            print(f"  its token is in a file that others can read; run: chmod 600 {place.path}")
        if wish.url is None and daemon_client.address(wish.config) is None:
            print(f"  no daemon runs now; start it: {reach.program()} serve")
    print(f"  see that it works: {client.check.replace(DEFAULT_NAME, wish.name)}")
    flags = " --project" if wish.is_for_project else ""
    named = "" if wish.name == DEFAULT_NAME else f" --name {wish.name}"
    print(f"  take it out again: mcp-agent connect {client.id} --remove{flags}{named}")


def _print_backup(path: Path | None) -> None:
    if path is not None:
        print(f"  the old file is kept as {short_path(path)}")


def _secrets(how: Reach) -> list[str]:
    return [how.token] if isinstance(how, Http) and how.token and not how.token.startswith("<") else []


def _is_printed(name: str) -> bool:
    return name in frameworks.PRINTED


def _find(name: str) -> Client:
    client = find_client(name)
    if client is None:
        raise UserError(f"there is no client {name!r}; there are: {_names()}")
    return client


def _names() -> str:
    return ", ".join([*(client.id for client in CLIENTS), *frameworks.PRINTED])


def _scheme(config: Config) -> str:
    return "http" if config.tls_cert is None else "https"
