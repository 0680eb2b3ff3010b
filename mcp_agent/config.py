"""Settings that need a restart: a flag counts before the environment, that before config.toml, that before the default.

What can change while the daemon runs is in tools.json; nothing is in both.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from mcp_agent.logs import LEVELS
from tools.kit.records import record

APP = "mcp-agent"
PREFIX = "MCP_AGENT_"
# Variables of ours that are no settings: the token, and the mark on what a session starts.
_OTHER_VARIABLES = ("MCP_AGENT_TOKEN", "MCP_AGENT_SESSION")


class BadConfig(Exception):
    """A setting that cannot be used; the message is one sentence."""


class Setting(NamedTuple):
    """One setting as people meet it."""

    name: str
    help: str
    default: str

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        return f"{PREFIX}{self.name.upper()}"


SETTINGS = (
    Setting("host", "address to listen on; 0.0.0.0 is every network of this machine", "127.0.0.1"),
    Setting("port", "port to listen on; 0 takes a free one", "8765"),
    Setting("config", "the tools.json with profiles and switches", "tools.json in the user's config folder"),
    Setting("profile", "profile to use instead of the active one of tools.json", "the file's activeProfile"),
    Setting("state_dir", "folder for the token and other state", "the user's state folder for mcp-agent"),
    Setting("token_file", "file with the token; made if it is not there", "token in the state folder"),
    Setting("allow_host", "further name this daemon answers to; may be given several times", "none"),
    Setting("tls_cert", "certificate to serve HTTPS with; needs tls_key", "plain HTTP"),
    Setting("tls_key", "private key of tls_cert", "plain HTTP"),
    Setting("journal_mb", "most megabytes of old states kept for undo", "200"),
    Setting("journal_days", "how many days a change can be undone", "7"),
    Setting("artifacts_mb", "most megabytes of artifacts kept in all", "1000"),
    Setting("artifacts_caller_mb", "most megabytes of artifacts kept for one caller", "100"),
    Setting("artifacts_days", "how many days an artifact is kept", "7"),
    Setting("yield_ms", "milliseconds after which a command of an MCP client becomes a session; 0 never", "45000"),
    Setting("max_sessions", "sessions that may run at once", "10"),
    Setting("session_age_s", "seconds after which a session is ended", "3600"),
    Setting("session_spool_mib", "megabytes of output kept of each session: the first one and the newest", "64"),
    Setting("stop_on_disconnect", "true ends a client's sessions when it disconnects", "false"),
    Setting("log_level", f"how much to log: {', '.join(LEVELS)}", "info"),
)


@record
class Config:
    """All settings, each parsed and in range."""

    host: str
    port: int
    config: Path
    profile: str | None
    state_dir: Path
    token_file: Path
    allow_host: tuple[str, ...]
    tls_cert: Path | None
    tls_key: Path | None
    log_level: str
    journal_mb: int = 200
    journal_days: int = 7
    artifacts_mb: int = 1000
    artifacts_caller_mb: int = 100
    artifacts_days: int = 7
    yield_ms: int = 45_000
    max_sessions: int = 10
    session_age_s: int = 3_600
    session_spool_mib: int = 64
    stop_on_disconnect: bool = False

    @property
    def clients_file(self) -> Path:
        """The tokens of clients with a profile of their own."""
        return self.state_dir / "tokens.json"

    @property
    def pruned_dir(self) -> Path:
        """What was pruned, for as long as its lines can be brought back."""
        return self.state_dir / "pruned"

    @property
    def runtime_file(self) -> Path:
        """Where a running daemon says how it is reached, for the commands of the same user."""
        return self.state_dir / "daemon.json"

    @property
    def journal_dir(self) -> Path:
        return self.state_dir / "journal"

    @property
    def artifacts_dir(self) -> Path:
        return self.state_dir / "artifacts"

    @property
    def cursor_key(self) -> Path:
        """What the cursors of short results are signed with."""
        return self.state_dir / "cursor.key"

    @property
    def audit_dir(self) -> Path:
        return self.state_dir / "audit"

    @property
    def closed(self) -> tuple[Path, ...]:
        """What the filesystem tools must not touch, by the names it has and by the places those lead to."""
        own = (
            self.token_file,
            self.clients_file,
            self.journal_dir,
            self.artifacts_dir,
            self.audit_dir,
            self.pruned_dir,
            self.cursor_key,
        )
        return tuple(dict.fromkeys((*own, *(path.resolve() for path in own))))


def load(flags: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Config:
    """The settings in force. Raises BadConfig with one sentence on what is wrong and where it was said."""
    environment = os.environ if environment is None else environment
    file, file_path = _config_file(environment)
    names = [setting.name for setting in SETTINGS]
    for key in file:
        if key not in names:
            near = get_close_matches(key, names, n=1)
            hint = f" (did you mean {near[0]}?)" if near else f"; there are {', '.join(names)}"
            raise BadConfig(f"{file_path}: there is no setting {key!r}{hint}")
    values: dict[str, tuple[Any, str]] = {}
    for setting in SETTINGS:
        if flags.get(setting.name) is not None:
            values[setting.name] = flags[setting.name], setting.flag
        elif setting.variable in environment:
            values[setting.name] = environment[setting.variable], setting.variable
        elif setting.name in file:
            values[setting.name] = file[setting.name], f"{setting.name} in {file_path}"
    state_dir = _path(values.get("state_dir")) or state_folder()
    tls_cert, tls_key = _path(values.get("tls_cert")), _path(values.get("tls_key"))
    if (tls_cert is None) != (tls_key is None):
        raise BadConfig("--tls-cert and --tls-key belong together: give both or neither")
    for path, name in ((tls_cert, "tls_cert"), (tls_key, "tls_key")):
        if path is not None and not path.is_file():
            raise BadConfig(f"{values[name][1]}: there is no file {path}")
    return Config(
        host=_text(values.get("host")) or "127.0.0.1",
        port=_port(values.get("port")),
        config=_path(values.get("config")) or registry_path(),
        profile=_text(values.get("profile")),
        state_dir=state_dir,
        token_file=_path(values.get("token_file")) or state_dir / "token",
        allow_host=_names(values.get("allow_host")),
        tls_cert=tls_cert,
        tls_key=tls_key,
        log_level=_level(values.get("log_level")),
        journal_mb=_number(values.get("journal_mb"), 200, least=0),
        journal_days=_number(values.get("journal_days"), 7, least=0),
        artifacts_mb=_number(values.get("artifacts_mb"), 1000, least=0),
        artifacts_caller_mb=_number(values.get("artifacts_caller_mb"), 100, least=0),
        artifacts_days=_number(values.get("artifacts_days"), 7, least=0),
        yield_ms=_number(values.get("yield_ms"), 45_000, least=0),
        max_sessions=_number(values.get("max_sessions"), 10, least=1),
        session_age_s=_number(values.get("session_age_s"), 3_600, least=1),
        session_spool_mib=_number(values.get("session_spool_mib"), 64, least=8),
        stop_on_disconnect=_truth(values.get("stop_on_disconnect")),
    )


def misspelt(environment: Mapping[str, str] | None = None) -> list[str]:
    """What is wrong with variables that begin like ours and are none: they would be ignored without a word."""
    environment = os.environ if environment is None else environment
    known = [*(setting.variable for setting in SETTINGS), *_OTHER_VARIABLES]
    found = []
    for name in sorted(name for name in environment if name.startswith(PREFIX) and name not in known):
        near = get_close_matches(name, known, n=1, cutoff=0.7)
        found.append(f"there is no setting {name}{f' (did you mean {near[0]}?)' if near else ''}")
    return found


def registry_path() -> Path:
    """Where tools.json is when nothing says otherwise: an older place if a file is there, else the config folder."""
    home = Path.home()
    older = [home / ".mcp-eyes-tools.json"]
    if sys.platform == "darwin":
        older.insert(0, home / "Library" / "Application Support" / "MCPEyes" / "tools.json")
    return next((path for path in older if path.exists()), _config_folder() / "tools.json")


def _config_folder() -> Path:
    import platformdirs

    return platformdirs.user_config_path(APP, appauthor=False)


def state_folder() -> Path:
    """Where state is kept when nothing says otherwise."""
    import platformdirs

    return platformdirs.user_state_path(APP, appauthor=False)


def _config_file(environment: Mapping[str, str]) -> tuple[dict[str, Any], Path]:
    path = _config_folder() / "config.toml"
    if not path.exists():
        return {}, path
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8")), path
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadConfig(f"{path}: {error}") from None


Given = tuple[Any, str] | None


def _text(given: Given) -> str | None:
    if given is None:
        return None
    value, source = given
    if not isinstance(value, str) or not value:
        raise BadConfig(f"{source}: needs a value, a text")
    return value


def _path(given: Given) -> Path | None:
    text = _text(given)
    return None if text is None else Path(text).expanduser().absolute()


def _port(given: Given) -> int:
    if given is None:
        return 8765
    value, source = given
    try:
        port = int(value)
    except (TypeError, ValueError):
        raise BadConfig(f"{source}: a port is a number from 0 to 65535, not {value!r}") from None
    if not 0 <= port <= 65535 or isinstance(value, bool):
        raise BadConfig(f"{source}: a port is a number from 0 to 65535, not {value!r}")
    return port


def _number(given: Given, default: int, *, least: int) -> int:
    if given is None:
        return default
    value, source = given
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if number < least or isinstance(value, bool):
        raise BadConfig(f"{source}: needs a whole number, {least} or more, not {value!r}")
    return number


def _truth(given: Given) -> bool:
    if given is None:
        return False
    value, source = given
    text = str(value).lower()
    if text not in ("true", "false", "1", "0"):
        raise BadConfig(f"{source}: needs true or false, not {value!r}")
    return text in ("true", "1")


def _names(given: Given) -> tuple[str, ...]:
    if given is None:
        return ()
    value, source = given
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise BadConfig(f"{source}: needs names, separated by commas")
    cleaned = tuple(name.strip() for name in names if name.strip())
    for name in cleaned:
        if "/" in name or "*" in name or name.count(":") == 1:
            raise BadConfig(f"{source}: {name!r} must be a bare name, without scheme, port or wildcard")
    return cleaned


def _level(given: Given) -> str:
    level = (_text(given) or "info").lower()
    if level not in LEVELS:
        assert given is not None, "the default is a level"
        raise BadConfig(f"{given[1]}: the level must be one of {', '.join(LEVELS)}, not {level!r}")
    return level
