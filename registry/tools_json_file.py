"""tools.json on disk: read whole, written whole, never in between.

A save goes to a new file in the same folder, is synced, and takes the old one's place in one step; the mode, the
owner and a symbolic link in front of it stay. Writers take turns through a lock on the folder, which leaves nothing
behind.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from registry.catalog import Catalog
from registry.profiles import BadRegistry, Problem, Profile, Profiles, UnknownName, default_document, describe_profile
from registry.tools_json import load_document, read
from tools.files import atomic, disk

_MOST_BYTES = 16 * 1024 * 1024


class RegistryFile:
    """The one tools.json of this daemon."""

    def __init__(self, path: Path, catalog: Catalog) -> None:
        self.path = path
        self._catalog = catalog

    def load(self) -> Profiles:
        """The profiles in the file. Raises BadRegistry, also for a file that cannot be read."""
        document, digest = self._document()
        return self._read(document, digest)

    def load_or_create(self) -> Profiles:
        """As `load`, but if there is no file, write one with every tool on first."""
        with self._os_errors_as_problems("made"):
            if not self.path.exists():
                if self.path.is_symlink():
                    raise self._bad(f"{self.path} is a link to a file that is not there")
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self._lock():
                    if not self.path.exists():
                        self._write(default_document(self._catalog))
        return self.load()

    def edit(self, change: Callable[[dict[str, Any], Profiles], None]) -> Profiles:
        """Apply `change` to the file as it is now, and save it if what comes out is a good registry.

        Raises BadRegistry and writes nothing where the file is broken before or after the change.
        """
        self.load_or_create()
        with self._os_errors_as_problems("written"), self._lock():
            document, digest = self._document()
            change(document, self._read(document, digest))
            profiles = self._read(document, "")
            digest = self._write(document)
        return replace(profiles, digest=digest)

    def use_profile(self, profile_id: str) -> Profiles:
        """Make `profile_id` the active profile. Raises UnknownName."""

        def change(document: dict[str, Any], profiles: Profiles) -> None:
            profiles[profile_id]
            document["activeProfile"] = profile_id

        return self.edit(change)

    def switch(self, target: str, enabled: bool, profile_id: str | None = None) -> Profiles:
        """Switch a category or a tool, in `profile_id` or in the active profile.

        Raises UnknownName if there is no such profile, category or tool.
        """

        def change(document: dict[str, Any], profiles: Profiles) -> None:
            profile = profiles[profile_id or profiles.active]
            entry = self._profile_entry(document, profile)
            tool = self._catalog.by_name.get(target)
            known = tool is not None or target in self._catalog.categories or target in profile.categories
            if not known:
                near = get_close_matches(target, [*self._catalog.names, *self._catalog.categories], n=1)
                hint = f"did you mean {near[0]}?" if near else None
                raise UnknownName(f"there is no category or tool {target[:100]!r}", hint)
            category = target if tool is None else tool.category
            switches = _entry(entry.setdefault("categories", []), category)
            if tool is None:
                switches["enabled"] = enabled
            else:
                _entry(switches.setdefault("tools", []), target)["enabled"] = enabled

        return self.edit(change)

    def _profile_entry(self, document: dict[str, Any], profile: Profile) -> dict[str, Any]:
        """The profile's entry in the file. A built-in profile is written out in full at its first change."""
        entries: list[dict[str, Any]] = document.setdefault("profiles", [])
        for entry in entries:
            if entry["id"] == profile.id:
                return entry
        entries.append(describe_profile(profile, self._catalog))
        return entries[-1]

    def _read(self, document: dict[str, Any], digest: str) -> Profiles:
        return replace(read(document, self._catalog, str(self.path)), digest=digest)

    def _document(self) -> tuple[dict[str, Any], str]:
        # The flags include O_NONBLOCK: if the path is a pipe, open must not wait for a writer.
        with self._os_errors_as_problems("read"), disk.open_descriptor(self.path) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise self._bad(f"{self.path} is no regular file")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise self._bad(f"{self.path} is larger than {_MOST_BYTES} bytes")
        try:
            return load_document(data.decode("utf-8-sig"), str(self.path)), _digest(data)
        except UnicodeDecodeError as error:
            raise self._bad(f"no UTF-8: byte {error.start} fits no character") from None

    def _write(self, document: dict[str, Any]) -> str:
        target = self.path.resolve()
        # Not orjson, which cannot write numbers over 64 bits: users may have put some beside our keys.
        data = f"{json.dumps(document, indent=2, ensure_ascii=False)}\n".encode()
        before = target.stat() if target.exists() else None
        mode = 0o600 if before is None else before.st_mode & 0o7777
        # One name, because the lock lets one writer in at a time.
        with atomic.replacing(target, temporary=target.with_name(f".{target.name}.new")) as descriptor:
            disk.write_all(descriptor, data)
            if before is not None:
                _keep_owner(descriptor, before)
            os.fchmod(descriptor, mode)
        disk.sync_folder(target.parent)
        return _digest(data)

    def _bad(self, message: str) -> BadRegistry:
        return BadRegistry([Problem("", message)], str(self.path))

    @contextmanager
    def _os_errors_as_problems(self, action: str) -> Iterator[None]:
        """Report an OSError as a problem of the file."""
        try:
            yield
        except FileNotFoundError:
            raise self._bad(f"{self.path} is not there") from None
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise self._bad(f"{self.path} cannot be {action}: {reason}") from None

    def _lock(self) -> AbstractContextManager[None]:
        return atomic.folder_lock(self.path.resolve().parent)


def _digest(data: bytes) -> str:
    """A short hash of the file, to distinguish its states."""
    return hashlib.sha256(data).hexdigest()[:16]


def _keep_owner(descriptor: int, before: os.stat_result) -> None:
    """Keep the owner of the file if another user saves it, as with sudo. Without that right the user becomes owner."""
    with suppress(OSError):
        os.fchown(descriptor, before.st_uid, before.st_gid)


def _entry(entries: list[dict[str, Any]], entry_id: str) -> dict[str, Any]:
    for entry in entries:
        if entry["id"] == entry_id:
            return entry
    entries.append({"id": entry_id, "enabled": True})
    return entries[-1]
