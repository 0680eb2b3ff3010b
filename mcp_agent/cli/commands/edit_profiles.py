"""`mcp-agent profile create|copy|edit|delete`: whole profiles of tools.json."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.changing import make_change, print_change, read_registry
from mcp_agent.config import load
from mcp_agent.security import auth_tokens
from registry.edits import edit_named, profile_entry
from registry.profiles import BadRegistry
from registry.user_error import UserError

_EDITORS = ("VISUAL", "EDITOR")


def create(options: argparse.Namespace) -> int:
    arguments = {"profile": options.id, "description": options.description, "empty": options.empty}
    report = make_change(options, "profiles/create", arguments)
    start, verb = ("nothing is on in it", "enable") if options.empty else ("everything is on in it", "disable")
    print(f"{options.id} is a new profile; {start}. To change it: mcp-agent {verb} NAME --profile {options.id}")
    print_change(report)
    return 0


def copy(options: argparse.Namespace) -> int:
    arguments = {"profile": options.new, "from": options.id, "description": options.description}
    report = make_change(options, "profiles/create", arguments)
    print(f"{options.new} is a new profile, a copy of {options.id}")
    print_change(report)
    return 0


def delete(options: argparse.Namespace) -> int:
    tokens = auth_tokens.clients(load(vars(options)).clients_file)
    if holders := ", ".join(each.name for each in tokens if each.profile == options.id):
        advice = "revoke the token first: mcp-agent token revoke NAME"
        raise UserError(f"the profile {options.id} is that of the token {holders}; {advice}")
    report = make_change(options, "profiles/delete", {"profile": options.id})
    print(f"{options.id} is no longer in tools.json")
    print_change(report)
    return 0


def edit(options: argparse.Namespace) -> int:
    """Open the profile in an editor, or read it from a file. What cannot be used is kept, so that no work is lost."""
    config = load(vars(options))
    file, profiles, catalog = read_registry(config, daemon_client.find_by(options, config))
    before = profile_entry(file.document(), profiles[options.id], catalog)
    if options.file is not None:
        text = sys.stdin.read() if options.file == "-" else _read(Path(options.file))
        kept = None
    else:
        text, kept = _in_editor(options.id, before)
    try:
        entry = json.loads(text)
        if entry == before:
            print("nothing has changed")
            _discard(kept)
            return 0
        file.try_edit(edit_named("profiles/edit", {"profile": options.id, "entry": entry}), catalog)
    except BadRegistry as error:
        raise _unusable("; ".join(map(str, error.problems)), kept) from None
    except (ValueError, UserError) as error:
        raise _unusable(str(error), kept) from None
    report = make_change(options, "profiles/edit", {"profile": options.id, "entry": entry})
    _discard(kept)
    print(f"the profile {options.id} is changed")
    for change in report["changes"]:
        print(f"  {change}")
    print_change(report)
    return 0


def _in_editor(profile_id: str, entry: dict[str, Any]) -> tuple[str, Path]:
    """The text that the user has made of the profile, and the file that it is in."""
    program = next((os.environ[name] for name in _EDITORS if os.environ.get(name)), "vi")
    descriptor, name = tempfile.mkstemp(prefix=f"mcp-agent-{profile_id}-", suffix=".json")
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{json.dumps(entry, indent=2, ensure_ascii=False)}\n")
    try:
        code = subprocess.run([*shlex.split(program), name], check=False).returncode
    except (OSError, ValueError) as error:
        Path(name).unlink()
        raise UserError(f"the editor {program!r} cannot be started: {error}; set EDITOR, or pass --file") from None
    if code != 0:
        raise UserError(f"the editor ended with exit code {code}, and nothing was changed; your text is in {name}")
    return Path(name).read_text("utf-8"), Path(name)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None


def _unusable(problems: str, kept: Path | None) -> UserError:
    again = "" if kept is None else f"; your text is in {kept}: correct it and pass it with --file"
    return UserError(f"the profile cannot be used, and nothing was changed: {problems}{again}")


def _discard(kept: Path | None) -> None:
    if kept is not None:
        kept.unlink(missing_ok=True)
