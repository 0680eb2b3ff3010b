"""What `serve` shows on a terminal: first all that a person needs to connect a client, then who connects, each call as
it ends, and what is refused.

The lines are those of the audit log, one for each, shortened. They go through the log, whose thread writes them: a
terminal that is held (Ctrl-S) must not stop the daemon.
"""

from __future__ import annotations

import logging
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TextIO

from mcp_agent import __version__
from mcp_agent.cli.clients.known_clients import CLIENTS
from mcp_agent.cli.commands.audit import render_event
from mcp_agent.cli.commands.own_command import own_command, reaching_flags
from mcp_agent.config import Config
from mcp_agent.process.logs import TerminalText, event
from mcp_agent.process.printing import Style, paint, write_painted
from mcp_agent.security import addresses
from mcp_agent.security.auth_tokens import VARIABLE
from tools.files.paths import on_one_line

log = logging.getLogger(__name__)

_LEAST_WRAPPED = 40
_PLAIN_HTTP = "This is plain HTTP: what is sent can be read on the way. Use --tls-cert and --tls-key, or a tunnel."
_LINE = "audit.line"
_STOPPING = "server.stopping"
# What these loggers say is on a line of the audit log, too.
_REPEATED = {
    "mcp_agent.calls.observers": logging.ERROR,
    "mcp_agent.security.guard": logging.ERROR,
    "mcp_agent.daemon": logging.WARNING,
    "mcp_agent.cli.commands.serve": logging.WARNING,
}
_MOST_ARGUMENTS = 60


def print_banner(config: Config, url: str, hosts: Sequence[str], new_token: str | None, *, is_from_file: bool) -> None:
    """`hosts` are the names and addresses that lead here. The token itself is shown once, when it is new."""
    scheme, _, rest = url.partition("://")
    port = rest.rpartition(":")[2]
    urls = [f"{scheme}://{addresses.in_url(host)}:{port}/mcp" for host in hosts]
    command, flags = own_command(), reaching_flags(config)
    kept = f"in {config.token_file}" if is_from_file else f"taken from {VARIABLE}"
    show = f"{command} token show{flags}" if is_from_file else f"echo ${VARIABLE}"
    key = [new_token, f"new, kept {kept}"] if new_token else [f"{kept}; to see it: {show}"]
    facts = [*_label("URL", urls), *_label("key", key), *_label("tools", [str(config.tools_file)])]
    facts += _label("page", [urls[0].removesuffix("mcp"), f"to log in: {command} open{flags}"])
    lines = [
        "",
        f"  {paint(f'mcp-agent {__version__} is ready', 'bold', sys.stdout)}",
        "",
        *facts,
        "",
        *_ways_to_connect(command, flags),
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


def _ways_to_connect(command: str, flags: str) -> list[str]:
    """The one command for each client, and what to do if it does not work. `flags` lead to this daemon."""
    first, *others = (client.id for client in CLIENTS)
    rows = [
        ("connect", "finds the clients of this machine, and asks"),
        (f"connect {first}", f"that one; also: {', '.join(others)}"),
        ("connect open-webui --print", "a file that Open WebUI imports"),
        ("call fs_list path=.", "a call from here, to see that it works"),
        ("doctor", "why a client does not connect"),
    ]
    rows = [(words + flags, what) for words, what in rows]
    width = max(len(words) for words, _ in rows)
    lines = ["  In another terminal:"]
    for words, what in rows:
        begin = f"    {command} {words:{width}}  # "
        room = max(_LEAST_WRAPPED, shutil.get_terminal_size().columns - len(begin))
        wrapped = textwrap.wrap(what, room, break_on_hyphens=False)
        indents = [begin, *[f"{'# ':>{len(begin)}}"] * (len(wrapped) - 1)]
        lines += [f"{indent}{line}" for indent, line in zip(indents, wrapped, strict=True)]
    return [paint(line, "plain", sys.stdout) for line in lines]


def show_line(facts: Mapping[str, Any]) -> None:
    """Show a line of the audit log. It is called on the event loop."""
    if facts.get("event") != "start":
        event(log, logging.INFO, _LINE, facts=facts)


def drop_repeated_lines() -> None:
    """Silence the log lines that say what the live lines say."""
    for name, level in _REPEATED.items():
        logging.getLogger(name).setLevel(level)


class LiveText(logging.Formatter):
    """Writes the lines of the audit log for somebody who watches, and every other log line as ever."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._other = TerminalText()

    def format(self, record: logging.LogRecord) -> str:
        data: Mapping[str, Any] = getattr(record, "data", None) or {}
        at = self._paint(datetime.fromtimestamp(record.created).strftime("%H:%M:%S"), "dim")
        match record.getMessage():
            case name if name == _LINE:
                return f"{at}  {self._render(data['facts'])}"
            case name if name == _STOPPING:
                count = data["sessions"]
                ended = "every stream ends" if not count else f"{count} session{'s' * (count > 1)} and every stream end"
                text = f"Stopping: {ended} now. Ctrl-C again ends it at once."
                return f"{at}  {self._paint(text, 'bold')}"
        return self._other.format(record)

    def _render(self, line: Mapping[str, Any]) -> str:
        match line.get("event"):
            case None:
                return self._render_call(line)
            case "connect":
                who = f"{line['program'] or 'a client'} {line['program_version']}".rstrip()
                given = f"token {line['client']}, profile {line['profile']}, results as {line['form']}"
                return f"{self._paint(who, 'cyan')} connected over {line['transport']} ({self._paint(given, 'plain')})"
            case "login_refused":
                return self._paint(render_event(dict(line)), "red")
            case _:
                return self._paint(render_event(dict(line)), "yellow")

    def _render_call(self, line: Mapping[str, Any]) -> str:
        outcome = "exit " + str(line["exit"]) if line.get("exit") else line["outcome"]
        style: Style = "green" if outcome == "ok" else "yellow" if line["outcome"] == "ok" else "red"
        arguments = " ".join(str(value) for value in line["args"].values())
        if len(arguments) > _MOST_ARGUMENTS:
            arguments = f"{arguments[: _MOST_ARGUMENTS - 1]}…"
        who = on_one_line(line["program"] or line["client"])
        figures = f"{_duration(line['ms'])}, {_size(line['bytes'])}"
        what = on_one_line(f"{line['tool']} {arguments}".rstrip())
        return (
            f"{self._paint(who, 'cyan')}  {self._paint(what, 'plain')}  {self._paint(outcome, style)}  "
            + self._paint(figures, "dim")
        )

    def _paint(self, text: str, style: Style) -> str:
        return paint(text.replace("\n", " "), style, self._stream)


def _duration(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def _size(count: int) -> str:
    return f"{count} B" if count < 1000 else f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1e6:.1f} MB"
