"""`mcp-agent expose`: the daemon behind a public name, for claude.ai, ChatGPT and every other client of OAuth."""

from __future__ import annotations

import tomllib
from argparse import Namespace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mcp_agent.cli.commands import daemon_client, running
from mcp_agent.cli.commands.daemon_client import RunningDaemon
from mcp_agent.cli.commands.public_recipes import RECIPES
from mcp_agent.cli.declaration import TOKENS, YES, CommandReply, argument, command, is_confirmed
from mcp_agent.cli.tables import Cell, print_table
from mcp_agent.config import Config, config_folder, load
from mcp_agent.settings import parse_public_url
from registry.user_error import UsageError, UserError
from tools.files import disk

_KEY = "public_url"
_REACHED = (
    ("/mcp, /sse, /rpc, /events, /tools/…", "every wire: with a token, or by OAuth once you have clicked"),
    ("/ui/", "the Tools page: its files for everybody, everything else after your login"),
    ("/authorize, /token, /register, /revoke", "OAuth: for everybody; nothing is granted without your click"),
    ("/health", "for everybody: that it runs, and its version"),
)
_NAMELESS = "tunnel-client"


@command(
    "expose",
    argument("url", metavar="URL", nargs="?", help="the https:// name of the daemon; without it, say how it stands"),
    argument("--by", choices=tuple(RECIPES), help="print what to set up so that the name leads here"),
    argument("--off", action="store_true", help="take the public name away, and OAuth with it"),
    YES,
    settings=TOKENS,
    examples=("mcp-agent expose https://box.example --by caddy", "mcp-agent expose"),
)
def expose(options: Namespace) -> CommandReply:
    """Make the daemon public under a name, for claude.ai, ChatGPT and others: switch OAuth on, say how the name is led
    here, check it, and print what to paste there. A running daemon is started again.
    """
    config = load(vars(options))
    if options.off:
        if options.url is not None:
            raise UsageError("--off takes no URL")
        return _switch_off(config, options)
    if options.url is None and options.by == _NAMELESS:
        _print_recipe(options.by, "", config)
        return CommandReply({"recipe": RECIPES[options.by].text})
    url = _current(config) if options.url is None else _parsed(options.url)
    if url is None:
        raise UsageError("there is no public name yet; give one: mcp-agent expose https://NAME")
    if options.url is not None:
        _set(config, url, options)
    daemon = daemon_client.find(config)
    _print_reached(url)
    found = None if daemon is None else _check(daemon, url)
    leads_here = found is not None and found["leads_here"] is True
    if options.by is not None:
        _print_recipe(options.by, url, config)
    elif not leads_here:
        _print_ways()
    _print_check(url, found)
    callbacks = _print_lines(url)
    facts = {"url": url, "resource": f"{url}/mcp", "callbacks": callbacks, "check": found}
    if options.by is not None:
        facts["recipe"] = RECIPES[options.by].filled(url, _port(config))
    # Whoever only asks wants the answer in the exit code, too.
    return CommandReply(facts, 0 if leads_here or options.url is not None else 1)


def _parsed(text: str) -> str:
    try:
        found: str = parse_public_url(text if "://" in text else f"https://{text}")
    except ValueError as error:
        raise UsageError(str(error)) from None
    return found


def _current(config: Config) -> str | None:
    """The public name of the daemon that runs, or the one of the settings."""
    daemon = daemon_client.find(config)
    public = None if daemon is None else daemon.ask("GET", "/health").get("public")
    return config.public_url if public is None else str(public["url"])


def _set(config: Config, url: str, options: Namespace) -> None:
    """Write the name into config.toml, and have the daemon serve it. Raises UserError."""
    daemon = daemon_client.find(config)
    is_served = daemon is not None and _current(config) == url
    if not is_served and daemon is not None and not (options.yes or _agrees(daemon, options)):
        raise UserError("nothing was changed")
    path = _write(url)
    print(f"{url} is the public name ({_KEY} in {path}), and OAuth is on.")
    if daemon is None:
        print("No daemon runs; it serves that name as soon as you start it: mcp-agent serve")
    elif not is_served:
        _restart(config, url)
    print()


def _agrees(daemon: RunningDaemon, options: Namespace) -> bool:
    sessions = daemon.ask("GET", "/health")["sessions"]["running"]
    ends = f" This ends {sessions} running sessions." if sessions else ""
    return is_confirmed(f"The daemon is started again with it.{ends} Go on?", as_json=options.json)


def _switch_off(config: Config, options: Namespace) -> CommandReply:
    was, daemon = _current(config), daemon_client.find(config)
    if was is None:
        print("There is no public name.")
        return CommandReply({"url": None})
    if daemon is not None and not (options.yes or _agrees(daemon, options)):
        raise UserError("nothing was changed")
    path = _write(None)
    print(f"{was} is the public name no longer ({_KEY} was taken out of {path}), and OAuth is off.")
    if daemon is not None:
        _restart(config, None)
    print("What you granted comes back with the name. To end it: mcp-agent token list, mcp-agent token revoke NAME")
    return CommandReply({"url": None, "was": was})


def _restart(config: Config, url: str | None) -> None:
    fresh, how = running.restart_daemon(config)
    print(f"The daemon runs again at {fresh.url or 'no port'}, process {fresh.pid}, {how}")
    daemon = daemon_client.find(config)
    public = None if daemon is None else daemon.ask("GET", "/health").get("public")
    served = None if public is None else public["url"]
    if served != url:
        raise UserError(
            f"the daemon still has the public name {served}: a flag or a variable says so, and wins over config.toml; "
            f"start it without that: mcp-agent {' '.join(fresh.arguments)}"
        )


def _write(url: str | None) -> Path:
    """Put the setting into config.toml, and leave the rest as it is."""
    import tomlkit

    path = config_folder() / "config.toml"
    try:
        text = disk.read_small_file(path).decode() if path.exists() else ""
        document = tomlkit.parse(text)
        if url is None:
            document.pop(_KEY, None)
        else:
            document[_KEY] = url
        changed = tomlkit.dumps(document)
        if tomllib.loads(changed).get(_KEY) != url:
            raise UserError(f'{path} has a form that we do not write into; put this at its beginning: {_KEY} = "{url}"')
        if changed != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            disk.replace_file(path, changed.encode())
    except OSError as error:
        raise UserError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from None
    return path


def _check(daemon: RunningDaemon, url: str) -> dict[str, Any] | None:
    """What the daemon finds out about its name; None for one that serves another, or none."""
    served = daemon.ask("GET", "/health").get("public")
    if served is None or served["url"] != url:
        return None
    found: dict[str, Any] = daemon.ask("POST", "/api/public/check", {})
    return found


def _print_reached(url: str) -> None:
    print(f"Reachable from the internet, once {url} leads here:\n")
    print_table([[Cell(f"  {paths}", "cyan"), news] for paths, news in _REACHED], "")
    print("\nThe owner's token is good there, too: it can do what you can do. Keep it to yourself.\n")


def _print_recipe(name: str, url: str, config: Config) -> None:
    recipe = RECIPES[name]
    print(f"{recipe.title[0].upper()}{recipe.title[1:]}. It needs: {recipe.needs}.\n")
    print(_indented(recipe.filled(url, _port(config)) if url else recipe.text))


def _print_ways() -> None:
    print("How the name is led here; --by NAME prints what to set up:\n")
    print_table([[Cell(f"  {name}", "cyan"), each.title] for name, each in RECIPES.items()], "")
    print()


def _print_check(url: str, found: dict[str, Any] | None) -> None:
    if found is None:
        print("Not checked: no daemon serves that name yet; mcp-agent serve or mcp-agent restart does that.\n")
        return
    if found["problem"] is None:
        print(f"Checked: {url} leads to this daemon.")
    elif found["leads_here"]:
        print(f"Checked: requests come by {url}, though {found['problem']}.")
    else:
        print(f"Checked: it does not lead here yet. {found['problem']}.")
    for each in found["advice"]:
        print(f"Note: {each}.")
    print("That is what this machine sees; claude.ai and ChatGPT come from outside. mcp-agent expose checks again.\n")


def _print_lines(url: str) -> dict[str, Any]:
    from mcp_agent.oauth.oauth_clients import addresses_to_paste

    lines = addresses_to_paste(url)
    print(
        "In claude.ai (Customize, Connectors, Add custom connector) and ChatGPT (Settings, Connectors, with developer"
    )
    print(f"mode on), paste this, and leave client id and secret empty:\n\n  {lines['resource']}\n")
    print("They are called back at:\n")
    callbacks = lines["callbacks"]
    print_table([[Cell(f"  {name}", "cyan"), "  ".join(each)] for name, each in callbacks.items()], "")
    return dict(callbacks)


def _indented(text: str) -> str:
    return "".join(f"  {line}" if line.strip() else line for line in text.splitlines(keepends=True))


def _port(config: Config) -> int:
    """The port of the daemon that runs, or the one of the settings."""
    daemon = daemon_client.find(config)
    return config.port if daemon is None else urlsplit(daemon.url).port or config.port
