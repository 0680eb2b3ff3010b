"""A client's configuration file: what putting our entry in or taking it out would change, and doing it.

The old file is kept as a backup. What cannot be read is left alone.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from mcp_agent.cli.clients import toml_text
from registry import jsonc
from registry.user_error import UserError
from tools.files import disk
from tools.journal import copies

Format = Literal["json", "toml"]
_MOST_BYTES = 64 * 1024 * 1024
_BACKUPS = 5
# What is kept under such a name may be a secret, and so may every value of an environment and every header.
_SECRET_NAME = re.compile(r"token|secret|passw|api.?key|authorization|cookie|credential|bearer", re.IGNORECASE)
_HOLDERS = frozenset(("env", "headers", "http_headers", "environment"))
_SCHEME = re.compile(r"(?:Bearer|Basic|Token) ")
_IN_URL = re.compile(r"(://)[^/@\s]+(?=@)|([?&][^=&#\s]+=)[^&#\s]+")
# A variable, the path of a file, or our own words for a token that is not made yet: no secrets.
_PLACEHOLDER = ("$", "{", "<")
_FEWEST_SECRET_CHARS = 8


class Unreadable(UserError):
    """The file of a client cannot be read or understood, and so is not changed."""


class ConfigEntry(Struct, frozen=True):
    """Where an entry belongs: the file, its format, and the keys that lead to it."""

    path: Path
    format: Format
    keys: tuple[str, ...]
    # Where old files are kept; None for beside the file.
    backups: Path | None = None

    def entry(self) -> Any:
        """The entry that is there; None if there is none. Raises Unreadable."""
        text = self._text()
        return None if text is None else self._find(text)

    def put(self, value: Any) -> Change:
        """What writing `value` there would change. Raises Unreadable."""
        text = self._text()
        return self._change(text, self._set(text or "", value))

    def unchanged(self) -> Change:
        text = self._text()
        return self._change(text, text)

    def remove(self) -> Change:
        """What taking the entry out would change. Raises Unreadable."""
        text = self._text()
        entry = None if text is None else self._find(text)
        if text is None or entry is None:
            return self._change(text, text)
        original = self._original()
        if original is not None and self._set(original, entry) == text:
            return self._change(text, original)
        if original is None and self._set("", entry) == text:
            return self._change(text, None)
        return self._change(text, self._without(text, original))

    def _change(self, before: str | None, after: str | None) -> Change:
        return Change(self.path, before, after, self.format, self.backups)

    def _text(self) -> str | None:
        try:
            return disk.read_small_file(self.path, _MOST_BYTES).decode()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unreadable(f"{self.path} cannot be read: {(error.strerror or str(error)).lower()}") from None
        except UnicodeDecodeError:
            raise Unreadable(f"{self.path} is left alone: it is not UTF-8") from None

    def _find(self, text: str) -> Any:
        try:
            document = _read(text, self.format)
        except (jsonc.NotJson, toml_text.NotToml) as error:
            raise self._unreadable(error) from None
        return jsonc.at(document, self.keys)

    def _set(self, text: str, value: Any) -> str:
        try:
            if self.format == "toml":
                return toml_text.set_table(text, self.keys, value)
            return jsonc.set_member(text, self.keys, value)
        except (jsonc.NotJson, jsonc.WrongShape, toml_text.NotToml) as error:
            raise self._unreadable(error) from None

    def _without(self, text: str, original: str | None) -> str:
        try:
            if self.format == "toml":
                return toml_text.remove_table(text, self.keys)
            parents = [self.keys[:depth] for depth in range(1, len(self.keys))]
            there = jsonc.read(original) if original and original.strip() else None
            return jsonc.remove_member(
                text, self.keys, {each for each in parents if there is not None and jsonc.at(there, each) is not None}
            )
        except (jsonc.NotJson, jsonc.WrongShape, toml_text.NotToml) as error:
            raise self._unreadable(error) from None

    def _original(self) -> str | None:
        """The newest backup in which our entry is not; None if there is none."""
        for path in reversed(_backups(self.path, self.backups)):
            try:
                text = path.read_bytes().decode()
                if self._find(text) is None:
                    return text
            except (OSError, UnicodeDecodeError, Unreadable):
                continue
        return None

    def _unreadable(self, error: ValueError) -> Unreadable:
        return Unreadable(f"{self.path} is left alone: {error}")


class Change(Struct, frozen=True):
    """The content of a file before and after; None where it does not exist."""

    path: Path
    before: str | None
    after: str | None
    format: Format | None = "json"
    # Where the old file is kept; None for beside it. Elsewhere is for the files of a project, which other people see.
    backups: Path | None = None

    @property
    def is_none(self) -> bool:
        return self.before == self.after

    def diff(self) -> str:
        """The change as a unified diff. What may be a secret is left out, also what other programs keep there."""
        lines = difflib.unified_diff(
            (self.before or "").splitlines(keepends=True),
            (self.after or "").splitlines(keepends=True),
            str(self.path) if self.before is not None else os.devnull,
            str(self.path) if self.after is not None else os.devnull,
        )
        text = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines).replace("\r\n", "\n")
        hidden: dict[str, str] = {}
        for side in filter(None, (self.before, self.after)):
            hidden.update(_secrets(side, self.format))
        for secret, shown in hidden.items():
            # As it is written in a file; a short one only where it is the whole text.
            for written in (json.dumps(secret), json.dumps(secret, ensure_ascii=False), f"'{secret}'"):
                text = text.replace(written, written[0] + shown + written[0])
            if len(secret) >= _FEWEST_SECRET_CHARS:
                text = text.replace(secret, shown)
        return text

    def apply(self) -> Path | None:
        """Make the change. Returns the backup of the old content; None if there was none. Raises UserError."""
        if self.is_none:
            return None
        try:
            backup = self.keep()
            if self.after is None:
                self.path.unlink()
            else:
                is_shared = self.backups is not None and not _secrets(self.after, self.format)
                _write(self.path, self.after, is_shared=is_shared)
        except OSError as error:
            raise UserError(f"{self.path} cannot be changed: {(error.strerror or str(error)).lower()}") from None
        return backup

    def keep(self) -> Path | None:
        """Write a backup of the old content, if there is any. Raises OSError."""
        if self.before is None:
            return None
        folder, name = _backup_place(self.path, self.backups)
        if self.backups is not None:
            disk.private_folder(folder)
        stamp = time.strftime("%Y%m%d-%H%M%S")
        backup = folder / f"{name}.{stamp}.mcp-agent-backup"
        number = 1
        while backup.exists():
            number += 1
            backup = folder / f"{name}.{stamp}-{number}.mcp-agent-backup"
        with disk.replacing(backup) as descriptor:
            disk.write_all(descriptor, self.before.encode())
        for old in _backups(self.path, self.backups)[:-_BACKUPS]:
            old.unlink(missing_ok=True)
        return backup


def project_file(project: Path, name: str) -> Path:
    """A file of a project. Raises UserError for one that a link of the project leads out of it."""
    path = project / name
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(project)):
        raise UserError(f"{path} is left alone: a link leads to {real}, which is not in the project")
    return path


def short_path(path: Path) -> str:
    """The path as a person writes it, with ~ for the home folder."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _read(text: str, format: Format) -> Any:
    return toml_text.read(text) if format == "toml" else jsonc.read(text) if text.strip() else {}


def _secrets(text: str, format: Format | None) -> dict[str, str]:
    """What `_hidden` finds in a text; nothing in one that is no configuration."""
    return {} if format is None else dict(_hidden(_read(text, format)))


def _hidden(value: Any, *, is_secret: bool = False) -> Iterator[tuple[str, str]]:
    """Every text in a configuration that may be or hold a secret, with what is shown in its place."""
    if isinstance(value, str):
        scheme = _SCHEME.match(value)
        bare = value[scheme.end() :] if scheme else value
        if is_secret and bare and not bare.startswith(_PLACEHOLDER):
            yield value, f"{scheme[0] if scheme else ''}…"
        elif (shown := _IN_URL.sub(lambda found: (found[1] or found[2]) + "…", value)) != value:
            yield value, shown
    elif isinstance(value, dict):
        for name, each in value.items():
            is_named = _SECRET_NAME.search(name) is not None and not isinstance(each, dict)
            yield from _hidden(each, is_secret=is_secret or is_named or name in _HOLDERS)
    elif isinstance(value, list):
        for flag, each in zip(("", *value), value, strict=False):
            # The word behind a flag such as `--api-key`; or both in one word.
            is_behind = isinstance(flag, str) and flag.startswith("-") and _SECRET_NAME.search(flag) is not None
            name, found, _ = each.partition("=") if isinstance(each, str) else ("", "", "")
            if found and _SECRET_NAME.search(name):
                yield each, f"{name}=…"
            else:
                yield from _hidden(each, is_secret=is_secret or is_behind)


def _backup_place(path: Path, backups: Path | None) -> tuple[Path, str]:
    """The folder of the backups of a file, and what their names begin with."""
    if backups is None:
        return path.parent, path.name
    return backups, f"{path.name}.{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}"


def _backups(path: Path, backups: Path | None) -> list[Path]:
    """The backups of a file, oldest first."""
    folder, name = _backup_place(path, backups)
    found = [each for each in folder.glob("*.mcp-agent-backup") if each.name.startswith(f"{name}.")]
    return sorted(found, key=lambda each: (each.stat().st_mtime_ns, each.name))


def _write(path: Path, text: str, *, is_shared: bool) -> None:
    """Replace the content. A link, the mode and the owner stay as they are; a new file is its owner's alone.

    One of a project without a secret is what the user's other new files are.
    """
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    before = target.stat() if target.exists() else None
    with disk.replacing(target) as descriptor:
        disk.write_all(descriptor, text.encode())
        if before is not None:
            copies.give_status(target, before, descriptor)
        elif is_shared:
            os.umask(mask := os.umask(0))
            os.fchmod(descriptor, 0o666 & ~mask)
