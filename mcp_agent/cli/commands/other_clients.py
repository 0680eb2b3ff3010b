"""Reads the MCP servers that another client has in its configuration, as mounts of ours."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from registry import jsonc
from registry.user_error import UserError
from tools.files import disk

_MOST_BYTES = 16 * 1024 * 1024
# Where clients keep their servers: Claude, Cursor, Gemini and most others; VS Code; Codex; Zed; opencode.
_KEYS = ("mcpServers", "servers", "mcp_servers", "context_servers", "mcp")
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)")
_OTHER_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_OURS = ("mcp-agent", "mcp-pruner")


class NotTaken(Exception):
    """A server cannot be mounted. The message says why."""


class OtherServer(Struct, frozen=True):
    """A server of another client: the name that its mount has here, and the mount, or why there is none."""

    name: str
    mount: Mapping[str, Any]
    problem: str = ""


def servers_of(path: Path) -> list[OtherServer]:
    """Every server in a configuration file of another client. Raises UserError."""
    try:
        text = disk.read_small_file(path, _MOST_BYTES).decode("utf-8-sig")
        document = tomllib.loads(text) if path.suffix == ".toml" else jsonc.read(text)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    found: dict[str, OtherServer] = {}
    others: list[OtherServer] = []
    for name, entry in _entries(document):
        server = _server(_NOT_IN_A_NAME.sub("-", name).strip("-")[:64] or "server", entry)
        # One that several projects have is mounted once.
        known = found.setdefault(server.name, server)
        if known.problem and not server.problem:
            found[server.name] = server
        elif not server.problem and server.mount != known.mount:
            others.append(OtherServer(server.name, {}, "another server there, which is taken, has this name, too"))
    if not found:
        raise UserError(f"{path} has no MCP servers: none of {', '.join(_KEYS)} is in it")
    return [*found.values(), *others]


def _entries(document: Any) -> Iterator[tuple[str, Any]]:
    """The servers of a client, and those that it has for single projects."""
    if not isinstance(document, dict):
        return
    for key in _KEYS:
        servers = document.get(key)
        # VS Code's settings and opencode's have a level more.
        if key == "mcp" and isinstance(servers, dict) and isinstance(servers.get("servers"), dict):
            servers = servers["servers"]
        if isinstance(servers, dict):
            yield from servers.items()
    projects = document.get("projects")
    for project in projects.values() if isinstance(projects, dict) else ():
        if isinstance(project, dict) and isinstance(project.get("mcpServers"), dict):
            yield from project["mcpServers"].items()


def _server(name: str, entry: Any) -> OtherServer:
    try:
        return OtherServer(name, _mount(entry))
    except NotTaken as error:
        return OtherServer(name, {}, str(error))


def _mount(entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise NotTaken("it is no object")
    if entry.get("disabled") is True or entry.get("enabled") is False:
        raise NotTaken("it is switched off there")
    url = entry.get("url") or entry.get("httpUrl") or entry.get("serverUrl")
    mount: dict[str, Any]
    if isinstance(url, str):
        if entry.get("type") == "sse":
            raise NotTaken("it speaks the transport of 2024 (sse); give the URL of its Streamable HTTP")
        mount = {"url": _plain(url, "url")}
        headers = _values(entry.get("headers") or entry.get("http_headers") or {}, "headers")
        # Codex names the variables that a token and other headers are in.
        if (variable := entry.get("bearer_token_env_var")) is not None:
            raise NotTaken(f"its token is in the variable {variable}; mount it with --url and --header")
        variables = entry.get("env_http_headers")
        headers |= {name: {"variable": each} for name, each in variables.items()} if isinstance(variables, dict) else {}
        if headers:
            mount["headers"] = headers
    else:
        command: Any = entry.get("command")
        arguments: Any = entry.get("args") or []
        if isinstance(command, dict):
            command, arguments = command.get("path"), command.get("args") or []
        if isinstance(command, list) and command:
            command, arguments = command[0], command[1:]
        if not isinstance(command, str) or not isinstance(arguments, list):
            raise NotTaken("it has neither a command nor a url")
        if Path(command).name in _OURS:
            raise NotTaken("it is this program itself")
        mount = {"command": _plain(command, "command"), "args": [_plain(str(each), "args") for each in arguments]}
        if entry.get("envFile"):
            raise NotTaken("its variables are in a file (envFile) that only that client reads")
        environment = entry.get("env") or entry.get("environment") or {}
        if environment:
            mount["env"] = _values(environment, "env")
        if isinstance(entry.get("cwd"), str):
            mount["cwd"] = _plain(entry["cwd"], "cwd")
    wanted = entry.get("tools", entry.get("enabled_tools", entry.get("includeTools")))
    if isinstance(wanted, list) and "*" not in wanted:
        mount["only"] = [str(each) for each in wanted]
    unwanted = entry.get("disabled_tools", entry.get("excludeTools"))
    if isinstance(unwanted, list) and unwanted:
        mount["except"] = [str(each) for each in unwanted]
    return mount


def _values(values: Any, key: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise NotTaken(f"its {key} is no object")
    return {name: _value(value, f"{key}/{name}") for name, value in values.items() if value is not None}


def _value(value: Any, where: str) -> str | dict[str, str]:
    """A text, or the place of one that the other client takes from its environment."""
    if isinstance(value, dict | list):
        raise NotTaken(f"its {where} is no text")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    whole = _VARIABLE.fullmatch(text)
    if whole is not None:
        return {"variable": whole[1] or whole[2]}
    return _plain(text, where)


def _plain(text: str, where: str) -> str:
    """Raises NotTaken for a text that another client would fill in."""
    placeholder = _OTHER_PLACEHOLDER.search(text)
    if placeholder is not None:
        raise NotTaken(f"its {where} has {placeholder[0]}, which only that client can fill in")
    return text
