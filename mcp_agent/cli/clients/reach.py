"""How a client reaches the daemon: by its URL, by starting it, or by way of ssh; and the entry that says so."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import urllib.parse
from pathlib import Path
from typing import Any

from msgspec import Struct

from mcp_agent.cli.clients.known_clients import VARIABLE, Client
from mcp_agent.config import Config, load
from mcp_agent.security.addresses import reachable_url
from registry.user_error import UserError

_PROGRAM = "mcp-agent"


class Http(Struct, frozen=True):
    """By URL. `token_file` is where the token is, `token` what it is; that is only for clients that must have it."""

    url: str
    token_file: Path
    token: str
    flags: tuple[str, ...] = ()

    def entry(self, client: Client) -> dict[str, Any]:
        secret = {
            "helper": shlex.join((program(), "token", "header", *self.flags)),
            "file": str(self.token_file),
            "variable": VARIABLE,
            "literal": self.token,
        }[client.secret]
        return client.http(self.url, secret)


class Stdio(Struct, frozen=True):
    """By starting a program that speaks MCP over standard input and output."""

    command: str
    arguments: tuple[str, ...]

    def entry(self, client: Client) -> dict[str, Any]:
        return client.stdio(self.command, list(self.arguments))


Reach = Http | Stdio


def local_stdio(config: Config, profile: str | None, *, is_shared: bool = False, attaches: bool = False) -> Stdio:
    """A server of its own for the client, or a bridge to the daemon where it `attaches`. In a file that is shared, the
    program has its bare name where the PATH leads to it: on other machines it is elsewhere.
    """
    chosen = () if profile is None else ("--profile", profile)
    starts = ("stdio", "--attach") if attaches else ("stdio",)
    found = shutil.which(_PROGRAM)
    is_on_path = found is not None and os.path.realpath(found) == os.path.realpath(program())
    return Stdio(_PROGRAM if is_shared and is_on_path else program(), (*starts, *place_flags(config), *chosen))


def by_ssh(host: str, profile: str | None, remote: str = _PROGRAM) -> Stdio:
    """The daemon of another machine, which the client reaches as its user does, by the program `remote` there.

    Raises UserError.
    """
    if host.startswith("-") or not host.strip():
        raise UserError(f"{host!r} is not the name of a host")
    chosen = () if profile is None else ("--profile", profile)
    return Stdio("ssh", (host, remote, "stdio", "--attach", *chosen))


def mcp_url(base: str, profile: str | None) -> str:
    """The URL of MCP at a daemon, narrowed to a profile. Raises UserError."""
    parts = urllib.parse.urlsplit(base if "//" in base else f"http://{base}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"{base!r} is not the URL of a daemon; use one such as http://127.0.0.1:8765")
    path = parts.path.rstrip("/") or "/mcp"
    if profile is not None and path == "/mcp":
        path = f"/mcp/{urllib.parse.quote(profile, safe='')}"
    return reachable_url(f"{parts.scheme}://{parts.netloc}") + path


def program() -> str:
    """The absolute path of `mcp-agent`: clients are started with other PATHs than a shell."""
    beside = Path(sys.executable).with_name(_PROGRAM)
    if beside.is_file():
        return str(beside)
    found = shutil.which(_PROGRAM)
    return str(beside) if found is None else str(Path(found).absolute())


def place_flags(config: Config) -> tuple[str, ...]:
    """The flags that lead to the places in use where a client, with none of our variables set, would not find them."""
    bare = load({}, {})
    flags: list[str] = []
    if config.tools_file != bare.tools_file:
        flags += ["--tools-file", str(config.tools_file.absolute())]
    if config.state_dir != bare.state_dir:
        flags += ["--state-dir", str(config.state_dir.absolute())]
    return tuple(flags)


def token_flags(token_file: Path) -> tuple[str, ...]:
    """The flags of `token header` that lead to this token; none where it is the one that is found without."""
    bare = load({}, {})
    return () if token_file == bare.token_file else ("--token-file", str(token_file))
