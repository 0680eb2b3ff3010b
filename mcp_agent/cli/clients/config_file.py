"""A client's configuration file: what putting our entry in or taking it out would change, and doing it.

The old file is kept as a backup. What cannot be read is left alone.
"""

from __future__ import annotations

import contextlib
import difflib
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

Format = Literal["json", "toml"]
_MOST_BYTES = 64 * 1024 * 1024
_BACKUPS = 5
# A bearer token, and what follows the name of a secret, on its line or as the next argument; not a variable's name.
_NAMED_SECRET = r"""(?<![\w-])[\w-]*(?:token|secret|passw(?:or)?d|api[-_]?key|authorization)["']?\s*[:=,][\s+-]*["']"""
_SECRET = re.compile(rf"""(?P<before>\bBearer\s+|{_NAMED_SECRET}(?:Bearer\s+)?+)(?![${{<])[^"'\s\\]+""", re.IGNORECASE)


class Unreadable(UserError):
    """The file of a client cannot be read or understood, and so is not changed."""


class ConfigEntry(Struct, frozen=True):
    """Where an entry belongs: the file, its format, and the keys that lead to it."""

    path: Path
    format: Format
    keys: tuple[str, ...]

    def entry(self) -> Any:
        """The entry that is there; None if there is none. Raises Unreadable."""
        text = self._text()
        return None if text is None else self._find(text)

    def put(self, value: dict[str, Any]) -> Change:
        """What writing `value` there would change. Raises Unreadable."""
        text = self._text()
        return Change(self.path, text, self._set(text or "", value))

    def remove(self) -> Change:
        """What taking the entry out would change. Raises Unreadable."""
        text = self._text()
        entry = None if text is None else self._find(text)
        if text is None or entry is None:
            return Change(self.path, text, text)
        original = self._original()
        if original is not None and self._set(original, entry) == text:
            return Change(self.path, text, original)
        if original is None and self._set("", entry) == text:
            return Change(self.path, text, None)
        return Change(self.path, text, self._without(text, original))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the file against other commands of ours: what is changed must be read under the lock.

        Raises UserError.
        """
        folder = Path(os.path.realpath(self.path)).parent
        with contextlib.ExitStack() as stack:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(disk.folder_lock(folder))
            except OSError as error:
                raise UserError(f"{self.path} cannot be changed: {(error.strerror or str(error)).lower()}") from None
            yield

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
            document = toml_text.read(text) if self.format == "toml" else jsonc.read(text) if text.strip() else {}
        except (jsonc.NotJson, toml_text.NotToml) as error:
            raise self._unreadable(error) from None
        return jsonc.at(document, self.keys)

    def _set(self, text: str, value: dict[str, Any]) -> str:
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
        for path in reversed(_backups(self.path)):
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

    @property
    def is_none(self) -> bool:
        return self.before == self.after

    @property
    def diff(self) -> str:
        """The change as a unified diff, without the secrets that are in the file: ours and those of others."""
        lines = difflib.unified_diff(
            (self.before or "").splitlines(keepends=True),
            (self.after or "").splitlines(keepends=True),
            str(self.path) if self.before is not None else os.devnull,
            str(self.path) if self.after is not None else os.devnull,
        )
        text = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines).replace("\r\n", "\n")
        return _SECRET.sub(lambda found: found["before"] + "…", text)

    def apply(self) -> Path | None:
        """Make the change. Returns the backup of the old content; None if there was none. Raises UserError."""
        if self.is_none:
            return None
        try:
            backup = self.keep()
            if self.after is None:
                self.path.unlink()
            else:
                _write(self.path, self.after)
        except OSError as error:
            raise UserError(f"{self.path} cannot be changed: {(error.strerror or str(error)).lower()}") from None
        return backup

    def keep(self) -> Path | None:
        """Write a backup of the old content, if there is any. Raises OSError."""
        if self.before is None:
            return None
        stamp = time.strftime("%Y%m%d-%H%M%S")
        backup = self.path.with_name(f"{self.path.name}.{stamp}.mcp-agent-backup")
        number = 1
        while backup.exists():
            number += 1
            backup = self.path.with_name(f"{self.path.name}.{stamp}-{number}.mcp-agent-backup")
        with disk.replacing(backup) as descriptor:
            disk.write_all(descriptor, self.before.encode())
        for old in _backups(self.path)[:-_BACKUPS]:
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


def _backups(path: Path) -> list[Path]:
    """The backups of a file, oldest first."""
    found = [each for each in path.parent.glob("*.mcp-agent-backup") if each.name.startswith(f"{path.name}.")]
    return sorted(found, key=lambda each: (each.stat().st_mtime_ns, each.name))


def _write(path: Path, text: str) -> None:
    """Replace the content. A link, the mode and the owner stay as they are; a new file is its owner's alone."""
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    before = target.stat() if target.exists() else None
    with disk.replacing(target) as descriptor:
        disk.write_all(descriptor, text.encode())
        if before is not None:
            disk.give_status(target, before, descriptor)
