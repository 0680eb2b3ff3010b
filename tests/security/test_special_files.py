"""A pipe, a socket or a device in the place of one of our own files is refused with a sentence, and hangs nobody."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_agent import config
from mcp_agent.security import auth_tokens
from mcp_agent.settings import BadConfig
from mcp_agent.storage.audit_log import AuditLog
from mcp_agent.storage.audit_reader import LineFilter, Trail

pytestmark = pytest.mark.timeout(30)

_REASON = "it is a pipe, a socket or a device, and not a regular file"


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


_KINDS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "socket": _socket,
    "device": lambda path: path.symlink_to("/dev/full"),
}


@pytest.fixture(params=_KINDS)
def special(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # The path of a socket must be short.
    monkeypatch.chdir(tmp_path)
    path = Path("special")
    _KINDS[request.param](path)
    if request.param != "device":
        path.chmod(0o600)
    return tmp_path / path


def test_as_the_token_file(special: Path) -> None:
    with pytest.raises(auth_tokens.BadToken) as refused:
        auth_tokens.from_file(special)
    # A device is everybody's, and that is said first.
    expected = (
        f"the token file {special} cannot be read: {_REASON}",
        f"others can read the token file {special}; run: ",
    )
    assert str(refused.value).startswith(expected)


def test_as_the_file_of_client_tokens(special: Path) -> None:
    with pytest.raises(auth_tokens.BadToken) as refused:
        auth_tokens.clients(special)
    assert str(refused.value) == f"{special} cannot be read: {_REASON}"


def test_as_config_toml(special: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = special.with_name("mcp-agent")
    folder.mkdir()
    special.rename(folder / "config.toml")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(special.parent))
    with pytest.raises(BadConfig) as refused:
        config.load({})
    assert str(refused.value) == f"{folder / 'config.toml'} cannot be read: {_REASON}"


def test_as_the_audit_log(special: Path, caplog: pytest.LogCaptureFixture) -> None:
    special.rename(special.with_name("audit.jsonl"))
    audit = AuditLog(special.parent)
    audit.write({"tool": "fs_read"})
    assert audit.lost_lines == 1
    assert _said(caplog) != ""
    with pytest.raises(OSError, match="regular file"):
        Trail(special.parent, lambda: None).last(10, LineFilter())


def _said(caplog: pytest.LogCaptureFixture) -> str:
    return " ".join(record.getMessage() for record in caplog.records)
