"""What `serve` shows on a terminal when it is ready: all that a person needs to connect a client."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

from mcp_agent import __version__
from mcp_agent.cli.clients.known_clients import CLIENTS
from mcp_agent.cli.commands.own_command import own_command
from mcp_agent.config import Config
from mcp_agent.process.printing import paint, write_painted
from mcp_agent.security import addresses
from mcp_agent.security.auth_tokens import VARIABLE

_LEAST_WRAPPED = 40
_PLAIN_HTTP = "This is plain HTTP: what is sent can be read on the way. Use --tls-cert and --tls-key, or a tunnel."


def print_banner(config: Config, url: str, hosts: Sequence[str], new_token: str | None, *, is_from_file: bool) -> None:
    """`hosts` are the names and addresses that lead here. The token itself is shown once, when it is new."""
    scheme, _, rest = url.partition("://")
    port = rest.rpartition(":")[2]
    urls = [f"{scheme}://{addresses.in_url(host)}:{port}/mcp" for host in hosts]
    command = own_command()
    kept = f"in {config.token_file}" if is_from_file else f"taken from {VARIABLE}"
    show = f"{command} token show" if is_from_file else f"echo ${VARIABLE}"
    key = [new_token, f"new, kept {kept}"] if new_token else [f"{kept}; to see it: {show}"]
    facts = [*_label("URL", urls), *_label("key", key), *_label("tools", [str(config.config)])]
    facts += _label("page", [f"{command} open"])
    lines = [
        "",
        f"  {paint(f'mcp-agent {__version__} is ready', 'bold', sys.stdout)}",
        "",
        *facts,
        "",
        *_ways_to_connect(command),
        "",
    ]
    if not addresses.is_loopback(config.host) and config.tls_cert is None:
        lines += [f"  {paint(_PLAIN_HTTP, 'yellow', sys.stdout)}", ""]
    lines += ["  Clients and calls are shown below; Ctrl-C ends it.", ""]
    write_painted("\n".join(lines) + "\n", sys.stdout)
    sys.stdout.flush()


def _label(label: str, values: Sequence[str]) -> list[str]:
    labels = [label, *[""] * (len(values) - 1)]
    return [
        f"  {paint(f'{each:6}', 'dim', sys.stdout)} {paint(value, 'plain', sys.stdout)}"
        for each, value in zip(labels, values, strict=True)
    ]


def _ways_to_connect(command: str) -> list[str]:
    """The one command for each client, and what to do if it does not work."""
    first, *others = (client.id for client in CLIENTS)
    rows = [
        ("connect", "finds the clients of this machine, and asks"),
        (f"connect {first}", f"that one; also: {', '.join(others)}"),
        ("connect open-webui --print", "a file that Open WebUI imports"),
        ("call fs_list path=.", "a call from here, to see that it works"),
        ("doctor", "why a client does not connect"),
    ]
    width = max(len(words) for words, _ in rows)
    lines = ["  In another terminal:"]
    for words, what in rows:
        begin = f"    {command} {words:{width}}  # "
        room = max(_LEAST_WRAPPED, shutil.get_terminal_size().columns - len(begin))
        wrapped = textwrap.wrap(what, room, break_on_hyphens=False)
        indents = [begin, *[f"{'# ':>{len(begin)}}"] * (len(wrapped) - 1)]
        lines += [f"{indent}{line}" for indent, line in zip(indents, wrapped, strict=True)]
    return [paint(line, "plain", sys.stdout) for line in lines]
