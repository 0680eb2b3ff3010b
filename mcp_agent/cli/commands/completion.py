"""`mcp-agent completion SHELL`, and what it offers: the script asks this program for the words that may come next."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence

from mcp_agent.cli.declaration import Argument, CommandReply, Completed, argument, command
from mcp_agent.cli.main import WORDS, commands_of, find_command
from mcp_agent.config import Config, load
from registry.user_error import UserError

_SCRIPTS = {
    "bash": """\
_mcp_agent() {
    local IFS=$'\\n'
    COMPREPLY=($(mcp-agent __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _mcp_agent mcp-agent
""",
    "zsh": """\
#compdef mcp-agent
_mcp_agent() {
    local -a found=("${(@f)$(mcp-agent __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then compadd -- "${found[@]}"; else _files; fi
}
compdef _mcp_agent mcp-agent
""",
    "fish": """\
function __mcp_agent
    set -l words (commandline -opc)
    mcp-agent __complete $words[2..-1] (commandline -ct | string collect --allow-empty) 2>/dev/null
end
complete -c mcp-agent -a '(__mcp_agent)'
""",
}


@command(
    "completion",
    argument("shell", choices=tuple(_SCRIPTS), help="the shell that reads the script"),
    settings=(),
    examples=('eval "$(mcp-agent completion bash)"', "mcp-agent completion fish"),
)
def completion(options: Namespace) -> CommandReply:
    """Print the completion script of a shell. It completes commands, flags, and the names of tools, profiles, clients,
    sessions and tokens.
    """
    script = _SCRIPTS[options.shell]
    print(script, end="")
    return CommandReply({"shell": options.shell, "script": script})


def print_candidates(words: Sequence[str]) -> int:
    """Print what the last of the words may become. Nothing is printed where that is not known, or a file."""
    *before, begun = words or [""]
    try:
        for candidate in _candidates(before, begun):
            if candidate.startswith(begun):
                print(candidate)
    except UserError:
        return 1
    return 0


def _candidates(before: Sequence[str], begun: str) -> Iterable[str]:
    if not before:
        return WORDS
    commands = commands_of(before[0]) if before[0] in WORDS else []
    actions = [each.words[1] for each in commands if len(each.words) > 1] if len(before) == 1 else []
    found = find_command(before)
    if found is None:
        return actions
    every = [*found.arguments, argument("--json", action="store_true"), argument("--help", action="store_true")]
    every += [argument(setting.flag, completed=_of_setting(setting.name)) for setting in found.settings]
    flag = next((each for each in every if before[-1] in each.names and before[-1].startswith("-")), None)
    if flag is not None and flag.value:
        return _values(flag)
    if begun.startswith("-"):
        return [name for each in every for name in each.names if name.startswith("--")]
    return [*actions, *(value for each in every if not each.names[0].startswith("-") for value in _values(each))]


def _of_setting(name: str) -> Completed | None:
    return "profiles" if name in ("profile", "fleet_profile") else None


def _values(wanted: Argument) -> Iterable[str]:
    if choices := wanted.details.get("choices"):
        return [str(choice) for choice in choices]
    return [] if wanted.completed is None else _names(load({}), wanted.completed)


def _names(config: Config, kind: Completed) -> Iterable[str]:
    """The names of that kind that there are now."""
    from mcp_agent.cli.commands import daemon_client

    match kind:
        case "clients":
            from mcp_agent.cli.clients.known_clients import client_names

            return client_names()
        case "tokens":
            from mcp_agent.cli.commands.token import every_token

            return [each.name for each in every_token(config).listed()]
        case "sessions":
            daemon = daemon_client.find(config)
            return [] if daemon is None else [each["id"] for each in daemon.ask("GET", "/api/sessions")["sessions"]]
    from mcp_agent.cli.commands.policy_change import read_registry

    _, profiles, catalog = read_registry(config, daemon_client.find(config))
    match kind:
        case "profiles":
            return profiles.by_id
        case "mounts":
            return profiles.mounts
        case "wraps":
            return [wrap.id for wrap in profiles.wraps]
        case "tools":
            return [*catalog.names, *catalog.categories]
