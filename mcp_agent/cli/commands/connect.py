"""`mcp-agent connect`: put the daemon into the configuration of a client, show what that would change, take it out."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from mcp_agent.cli.clients import frameworks, own_tokens, reach, ssh_check
from mcp_agent.cli.clients.approval import APPROVALS
from mcp_agent.cli.clients.config_file import Change, ConfigEntry, short_path
from mcp_agent.cli.clients.known_clients import CLIENTS, VARIABLE, Client, client_names, find_client
from mcp_agent.cli.clients.reach import Http, Reach
from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.connect_options import DEFAULT_NAME, ConnectOptions
from mcp_agent.cli.commands.token import put_into_force
from mcp_agent.cli.declaration import DRY_RUN, TOKENS, YES, CommandReply, argument, ask_which, command
from mcp_agent.config import Config
from mcp_agent.security.state_folder import mode_if_exposed
from registry.gate import Access, Gate
from registry.user_error import UsageError, UserError
from tools.files import disk
from tools.kit.spelling import did_you_mean

# What was done for one client, for `--json`.
ClientFacts = dict[str, str]


class Plan(Struct, frozen=True):
    """What connecting a client changes, or taking the daemon out of it; `how` is None for the latter."""

    client: Client
    place: ConfigEntry
    changes: tuple[Change, ...]
    how: Reach | None = None
    # What the client will do with our tools, in one line.
    behaviour: str = ""

    @property
    def is_none(self) -> bool:
        return all(change.is_none for change in self.changes)

    @property
    def diff(self) -> str:
        return "".join(change.diff() for change in self.changes)


_NAME = argument("--name", default=DEFAULT_NAME, help=f"what the client calls it (default: {DEFAULT_NAME})")
_PROJECT = argument("--project", action="store_true", help="in the file of the project in the current folder")
_CLIENTS = argument(
    "clients", nargs="*", metavar="CLIENT", completed="clients", help="for example: claude-code, codex, gemini-cli"
)


@command(
    "connect",
    _CLIENTS,
    argument("--all", action="store_true", help="every client that is installed, after asking"),
    argument(
        "--approve",
        choices=APPROVALS,
        help="the tools that the client may run without asking its person (default: none)",
    ),
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
    examples=("mcp-agent connect claude-code --dry-run", "mcp-agent connect codex --approve reads"),
)
def connect(options: Namespace) -> CommandReply:
    """Connect clients. Without a name: find those that are installed, show what it would do, ask."""
    wanted = ConnectOptions.of_flags(options, has_ways=True)
    if options.clients and options.all:
        raise UsageError("name clients, or say --all, not both")
    if options.print or any(map(_is_printed, options.clients)):
        return _print(options.clients, wanted)
    chosen = _chosen(options.clients, wanted)
    if wanted.ssh is not None and not wanted.is_dry and chosen:
        print(f"✓ {ssh_check.check_box(wanted.ssh)}")
    _print_cost(chosen, wanted)
    return _change(options, chosen, wanted, _plan, _connect)


@command(
    "connect remove",
    _CLIENTS,
    argument("--all", action="store_true", help="every client that has it, after asking"),
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
    wanted = ConnectOptions.of_flags(options, has_ways=False)
    chosen = [client for client in _chosen(options.clients, wanted) if options.clients or _has_entry(client, wanted)]
    return _change(options, chosen, wanted, _plan_removal, _remove)


def remove_everywhere(config: Config, name: str) -> None:
    """Take the entry of that name out of every client of this user."""
    wanted = ConnectOptions(config, name)
    _each(connected_clients(config, name), lambda client: _remove(client, wanted))


def connected_clients(config: Config, name: str) -> list[Client]:
    """The clients of this user that have an entry of that name."""
    return [client for client in CLIENTS if _has_entry(client, ConnectOptions(config, name))]


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


def _change(
    options: Namespace,
    clients: list[Client],
    wanted: ConnectOptions,
    plan: Callable[[Client, ConnectOptions], Plan],
    carry_out: Callable[[Client, ConnectOptions], ClientFacts],
) -> CommandReply:
    """Show what would change, or change it. Where no client was named, both: the person ticks what is to be done."""
    dry = replace(wanted, is_dry=True)
    if wanted.is_dry:
        return _each(clients, lambda client: _show(plan(client, dry)))
    if options.clients or options.yes or not clients:
        return _each(clients, lambda client: carry_out(client, wanted))
    plans: dict[str, Plan] = {}

    def show(client: Client) -> ClientFacts:
        found = plan(client, dry)
        if not found.is_none:
            plans[client.title] = found
        return _show(found)

    shown = _each(clients, show)
    if not plans:
        return shown
    if not sys.stdin.isatty():
        print("Nothing was changed: nobody can be asked here. Name the clients, or add --yes.")
        # Who says --all wants it done.
        return shown._replace(code=max(shown.code, int(options.all)))
    rows = {title: short_path(each.place.path) for title, each in plans.items()}
    ticked = ask_which("These files would be changed:", rows, as_json=options.json)
    if not ticked:
        print("Nothing was changed.")
        return shown
    return _each([plans[title].client for title in ticked], lambda client: carry_out(client, wanted))


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


def _plan(client: Client, wanted: ConnectOptions) -> Plan:
    """What connecting it changes. Makes a token where it needs one, except in a dry run. Raises UserError."""
    place, approval = wanted.place(client), client.approval
    approve = wanted.approve or "none"
    approval.check(client.title, approve)
    # Before a token is made: a file that cannot be changed needs none.
    place.put({})
    reading = wanted.reading_tools(client) if approve == "reads" else []
    how = wanted.reach(client)
    changes = [place.put({**how.entry(client), **approval.fields(approve, reading)})]
    behaviour = approval.describe(client.title, approve, reading)
    if approval.rules is not None:
        project = wanted.project(client)
        if wanted.approve is not None:
            tools = None if approve == "all" else reading
            changes.append(approval.rules.change(wanted.name, tools, project, wanted.config.client_backups_dir))
        elif current := approval.rules.current(wanted.name, project):
            behaviour = (
                f"{client.title} runs unasked what its rules allow ({', '.join(current)}); --approve none ends it"
            )
    return Plan(client, place, tuple(changes), how, behaviour)


def _plan_removal(client: Client, wanted: ConnectOptions) -> Plan:
    place, rules = wanted.place(client), client.approval.rules
    changes = [place.remove()]
    if rules is not None:
        changes.append(rules.change(wanted.name, [], wanted.project(client), wanted.config.client_backups_dir))
    return Plan(client, place, tuple(changes))


def _show(plan: Plan) -> ClientFacts:
    facts = {"file": str(plan.place.path)}
    if plan.is_none:
        return {**facts, "state": _print_unchanged(plan)}
    print(plan.diff, end="")
    if plan.behaviour:
        print(f"  {plan.behaviour}")
    return {**facts, "state": "would change", "diff": plan.diff}


def _print_unchanged(plan: Plan) -> str:
    why = "it is in" if plan.how is not None else "it is not in"
    print(f"✓ {plan.client.title}: nothing to do, {why} {short_path(plan.place.path)}")
    return "unchanged"


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """From reading a client's file to writing it: of two commands at once, the later one would undo the other."""
    with disk.folder_lock(Path.home()):
        yield


@_one_at_a_time()
def _connect(client: Client, wanted: ConnectOptions) -> ClientFacts:
    plan = _plan(client, wanted)
    assert plan.how is not None, "it is not a removal"
    facts = {"file": str(plan.place.path)}
    if plan.is_none:
        return {**facts, "state": _print_unchanged(plan)}
    _apply(plan, "wrote")
    own = own_tokens.token_path(wanted.config, wanted.token_name(client.id)).absolute()
    if not (isinstance(plan.how, Http) and plan.how.token_file == own):
        # It may have been connected in another way before.
        _revoke_token(client, wanted)
    print(f"  {plan.behaviour}")
    _print_advice(client, wanted, plan.how, plan.place)
    return {**facts, "state": "connected"}


@_one_at_a_time()
def _remove(client: Client, wanted: ConnectOptions) -> ClientFacts:
    plan = _plan_removal(client, wanted)
    facts = {"file": str(plan.place.path)}
    if plan.is_none:
        return {**facts, "state": _print_unchanged(plan)}
    _apply(plan, f"took {wanted.name} out of")
    _revoke_token(client, wanted)
    return {**facts, "state": "removed"}


def _apply(plan: Plan, verb: str) -> None:
    for change in plan.changes:
        if change.is_none:
            continue
        backup = change.apply()
        done = "deleted" if change.after is None else verb
        print(f"✓ {plan.client.title}: {done} {short_path(change.path)}")
        if backup is not None:
            print(f"  the old file is kept as {short_path(backup)}")


def _revoke_token(client: Client, wanted: ConnectOptions) -> None:
    """Revoke the token that was made for it, if there is one."""
    token_name = wanted.token_name(client.id)
    if own_tokens.drop_token(wanted.config, token_name):
        put_into_force(daemon_client.find(wanted.config))
        print(f"  revoked the token {token_name}")


def _print(names: list[str], wanted: ConnectOptions) -> CommandReply:
    if not names:
        raise UsageError(f"--print needs the name of a client or framework: {', '.join(client_names())}")
    printed: dict[str, str] = {}
    for name in names:
        if _is_printed(name):
            is_web = name == frameworks.OPEN_WEBUI
            how = wanted.framework_reach(name, needs_token=is_web)
            printed[name] = frameworks.PRINTED[name](wanted.name, how)
            advice = _open_webui_advice(how) if is_web and isinstance(how, Http) else ""
        else:
            client = _find(name)
            place, there = wanted.place(client), ""
            if wanted.ssh is not None:
                remote, is_asked = ssh_check.remote_program(wanted.ssh)
                wanted = replace(wanted, remote_program=remote)
                there = f" {wanted.ssh} is taken to be this machine." if not is_asked else ""
            entry = wanted.reach(client).entry(client)
            printed[name] = ConfigEntry(Path("/nonexistent"), place.format, place.keys).put(entry).after or ""
            file = str(place.path) if wanted.ssh is None else f"{client.usual_file} on the machine of {client.title}"
            advice = f"This belongs into {file}.{there}"
        print(printed[name], end="")
        if advice:
            print(advice, file=sys.stderr)
    return CommandReply(printed)


def _open_webui_advice(how: Http) -> str:
    return (
        "Import this file at Settings → Admin → Tools → Integrations → External Tool Servers → + → Import. "
        "It is for the admin alone until you share it.\n"
        "For files, live commands and a shell beside the chat, add Open Terminal there: URL "
        f"{how.url.removesuffix('/mcp')}/open-terminal, with the same key."
    )


def _print_cost(clients: list[Client], wanted: ConnectOptions) -> None:
    """What the tools of each profile cost; of a daemon elsewhere that is not known here."""
    if not wanted.is_here:
        return
    profiles, catalog = wanted.registry()
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


def _is_printed(name: str) -> bool:
    return name in frameworks.PRINTED


def _find(name: str) -> Client:
    client = find_client(name)
    if client is None:
        names = client_names()
        raise UsageError(
            f"there is no client {name!r}{did_you_mean(name, names) or '; there are: ' + ', '.join(names)}"
        )
    return client
