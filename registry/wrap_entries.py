"""Reads the `wrap` of a category in tools.json: a command line program that becomes a tool.

    "wrap": {"id": "bn_run", "command": "bn", "blocked": {"gui": "It opens a window."}, "value_options": ["--repo"],
             "timeout_seconds": 30, "env": {"BN_COLOR": "0"}, "cwd_required": true}

`wrap` may also be a list of such objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from registry.json_entry import Entry
from registry.known_keys import Tell
from tools.cli.wrap import Identity, Wrap, WrappedDocument

_KEYS = (
    "id",
    "command",
    "blocked",
    "value_options",
    "timeout_seconds",
    "env",
    "cwd_required",
    "description",
    "identity",
    "resources",
)
_IDENTITY_KEYS = ("name", "registry", "session_variable", "agent_variable")
_MOST_TIMEOUT_S = 3_600


def read_wraps(value: Any, category: str, pointer: str, problem: Tell) -> tuple[Wrap, ...]:
    """The wrapped programs of a category. `value` is at `pointer` in the file."""
    if isinstance(value, list):
        entries = [Entry(each, f"{pointer}/{index}", problem, _KEYS) for index, each in enumerate(value)]
    else:
        entries = [Entry(value, pointer, problem, _KEYS)]
    return tuple(_wrap(entry, category) for entry in entries)


def _wrap(entry: Entry, category: str) -> Wrap:
    environment = entry.texts_by_name("env")
    entry.check_variables("env", environment)
    blocked = entry.texts_by_name("blocked")
    for name in blocked:
        if not name or name.startswith("-") or len(name.split()) != 1:
            entry.problem(f"{name!r} would block nothing: a subcommand is one word and no option", "blocked")
    return Wrap(
        id=entry.name("id"),
        command=entry.text("command"),
        category=category,
        blocked=blocked,
        value_options=entry.texts("value_options"),
        timeout_seconds=entry.seconds("timeout_seconds", 30.0, _MOST_TIMEOUT_S),
        env=environment,
        cwd_required=entry.flag("cwd_required"),
        description=entry.text("description", ""),
        identity=_identity(entry),
        resources=tuple(_documents(entry)),
    )


def _identity(wrap: Entry) -> Identity | None:
    entry = wrap.entry("identity", _IDENTITY_KEYS)
    if entry is None:
        return None
    variables = {name: entry.text(name, "") for name in ("session_variable", "agent_variable")}
    entry.check_variables("", {value: None for value in variables.values() if value})
    return Identity(entry.name("name"), entry.text("registry"), **variables)


def _documents(wrap: Entry) -> Iterator[WrappedDocument]:
    for entry in wrap.entries("resources", ("uri", "args", "file", "description")):
        uri = entry.text("uri")
        if uri and "://" not in uri:
            entry.problem(f"{uri!r} is no URI such as name://thing", "uri")
        if ("args" in entry.values) == ("file" in entry.values):
            entry.problem("a resource needs args or file: what the program prints, or a file")
            continue
        args = entry.texts("args") if "args" in entry.values else None
        file = entry.text("file") if "file" in entry.values else None
        yield WrappedDocument(uri, args, file, entry.text("description", ""))
