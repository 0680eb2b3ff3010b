"""Settings that need a restart, in one object. A flag wins over the environment, config.toml and the default.

What can change while the daemon runs is in tools.json. No setting is in both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from mcp_agent.settings import DAEMON_SETTINGS, PREFIX, SETTINGS, BadConfig, Setting
from tools.files import disk
from tools.kit.spelling import did_you_mean
from tools.pruning.engine import Language

APP = "mcp-agent"
# Variables that begin with our prefix and are not settings: the token, the mark on every process of a session, and the
# one on every server that is mounted.
_OTHER_VARIABLES = ("MCP_AGENT_TOKEN", "MCP_AGENT_SESSION", "MCP_AGENT_MOUNTED_BY")
# Of a setting that is gone, and that a box must not run without.
_UNSIGNED = (
    "calls are not signed any more, so this box could not check what it is to check; take the setting away if you "
    "trust whoever runs the NATS server, or let this box join a server of your own"
)


class Config(Struct, frozen=True):
    """All settings, each parsed and in range. Their table is in `settings.py`."""

    host: str
    port: int
    tools_file: Path
    profile: str | None
    state_dir: Path
    token_file: Path
    allow_host: tuple[str, ...]
    allow_origin: tuple[str, ...]
    # None: the daemon has no public name, and OAuth is off.
    public_url: str | None
    tls_cert: Path | None
    tls_key: Path | None
    journal_mb: int
    journal_days: int
    command_undo: bool
    artifacts_mb: int
    artifacts_caller_mb: int
    artifacts_days: int
    text_bytes: int
    yield_ms: int
    syntax_checks: bool
    max_sessions: int
    session_age_s: int
    session_spool_mib: int
    stop_on_disconnect: bool
    approval_s: int
    approval_hold_s: int | None
    markers: Language
    # None: no member of a fleet.
    fleet: str | None
    box: str | None
    creds: Path | None
    label: tuple[tuple[str, str], ...]
    # None: the active one.
    fleet_profile: str | None
    log_level: str
    # None is the default of the program, "builtin" the built-in engine, and the empty string is no pruning.
    pruner_url: str | None
    pruner_timeout_ms: int
    # None is the working directory.
    pruner_cwd: Path | None
    pruner_max_input_chars: int
    pruner_ttl_s: int
    pruner_host: str
    pruner_port: int

    @property
    def box_name(self) -> str:
        """The name of this machine in its fleet; empty for a daemon that is in none. It is in the ids that it gives."""
        return (self.box or default_box_name()) if self.fleet else ""

    @property
    def id_suffix(self) -> str:
        """What stands behind every id that this daemon gives, so that a gateway finds the box by it."""
        return f"-{self.box_name}" if self.fleet else ""

    @property
    def clients_file(self) -> Path:
        """The hashes of the clients' tokens."""
        return self.state_dir / "tokens.json"

    @property
    def grants_file(self) -> Path:
        """What the owner has allowed clients of OAuth, with the hashes of their tokens."""
        return self.state_dir / "oauth.json"

    @property
    def client_tokens_dir(self) -> Path:
        """The tokens of clients that `connect` made: such a client reads its own from there."""
        return self.state_dir / "client-tokens"

    @property
    def mcp_sessions_file(self) -> Path:
        """What clients said of themselves when they connected; it outlives a restart."""
        return self.state_dir / "mcp-sessions.json"

    @property
    def runtime_file(self) -> Path:
        """The address of the running daemon, for the commands of the same user."""
        return self.state_dir / "daemon.json"

    @property
    def logouts_file(self) -> Path:
        """Which logins of browsers were ended, until their cookies are too old."""
        return self.state_dir / "page-logouts.json"

    @property
    def log_file(self) -> Path:
        """What the daemon logs, for `mcp-agent logs`."""
        return self.state_dir / "daemon.log"

    @property
    def client_backups_dir(self) -> Path:
        """What was in the files of projects before `connect` and `init` changed them."""
        return self.state_dir / "client-backups"

    @property
    def mounts_dir(self) -> Path:
        """What mounted servers listed last, and the secrets that they are started with."""
        return self.state_dir / "mounts"

    @property
    def journal_dir(self) -> Path:
        return self.state_dir / "journal"

    @property
    def effects_dir(self) -> Path:
        """What the helper process writes that sees what commands change."""
        return self.state_dir / "effects"

    @property
    def copies_dir(self) -> Path:
        """Files that come from another box of the fleet, while they are not whole."""
        return self.state_dir / "copies"

    @property
    def artifacts_dir(self) -> Path:
        """Results that were too large, and texts that were pruned."""
        return self.state_dir / "artifacts"

    @property
    def audit_dir(self) -> Path:
        return self.state_dir / "audit"

    @property
    def fleet_dir(self) -> Path:
        """The keys that sign the credentials of a fleet, on the machine that made it."""
        return self.state_dir / "fleet"

    @property
    def lock_file(self) -> Path:
        """Locked by the one `serve` of the state folder."""
        return self.state_dir / "serve.lock"

    @property
    def closed_paths(self) -> tuple[Path, ...]:
        """The paths that the filesystem tools must not touch, as written and with links resolved."""
        own = (
            self.token_file,
            self.clients_file,
            self.grants_file,
            self.client_tokens_dir,
            self.client_backups_dir,
            self.journal_dir,
            self.effects_dir,
            self.artifacts_dir,
            self.audit_dir,
            self.runtime_file,
            self.lock_file,
            self.mcp_sessions_file,
            self.logouts_file,
            self.mounts_dir,
            self.copies_dir,
            self.fleet_dir,
            *(() if self.creds is None else (self.creds,)),
        )
        return tuple(dict.fromkeys((*own, *(path.resolve() for path in own))))

    @property
    def protected_paths(self) -> tuple[Path, ...]:
        """The paths that tools may read and must not change: they say which tools are on, and how the daemon runs.

        The older places of tools.json are here too: a file that appears in one of them is the one that is used.
        """
        folder = config_folder()
        logs = (self.log_file, self.log_file.with_name(f"{self.log_file.name}.1"))
        state = (self.state_dir / "sessions", self.runtime_file, *logs)
        return self.tools_file, folder, folder / "config.toml", _older_place(), *state


def load(flags: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Config:
    """The settings in force. Raises BadConfig for the first one that cannot be used."""
    environment = os.environ if environment is None else environment
    if f"{PREFIX}FLEET_TRUST" in environment:
        raise BadConfig(f"{PREFIX}FLEET_TRUST: {_UNSIGNED}")
    given = _given_values(flags, environment)
    if ("tls_cert" in given) != ("tls_key" in given):
        raise BadConfig("--tls-cert and --tls-key belong together: give both or neither")
    values = {
        setting.name: setting.parse(*given[setting.name]) if setting.name in given else setting.default
        for setting in SETTINGS
    }
    values["tools_file"] = values["tools_file"] or registry_path()
    values["state_dir"] = values["state_dir"] or state_folder()
    values["token_file"] = values["token_file"] or values["state_dir"] / "token"
    return Config(**values)


def unknown_variables(environment: Mapping[str, str] | None = None) -> list[str]:
    """One sentence for each variable that begins with our prefix and is not a setting: it is probably misspelt."""
    environment = os.environ if environment is None else environment
    known = [*(variable for setting in SETTINGS for variable in setting.variables), *_OTHER_VARIABLES]
    unknown = sorted(name for name in environment if name.startswith(PREFIX) and name not in known)
    return [f"there is no setting {name}{did_you_mean(name, known)}" for name in unknown]


def registry_path() -> Path:
    """The default place of tools.json: an older place if a file is there, else the config folder."""
    return _older_place() if _older_place().exists() else config_folder() / "tools.json"


def _older_place() -> Path:
    return Path.home() / ".mcp-eyes-tools.json"


def gateway_places() -> dict[str, str]:
    """Where the gateway of this user has its state and its tools.json: a daemon may run beside it, with its own."""
    return {"state_dir": str(state_folder() / "gateway"), "tools_file": str(config_folder() / "gateway-tools.json")}


def state_folder() -> Path:
    """The default state folder."""
    import platformdirs

    return platformdirs.user_state_path(APP, appauthor=False)


def _given_values(flags: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    """Each setting that somebody gave: its raw value, and where it came from."""
    file, path = _config_file()
    given: dict[str, tuple[Any, str]] = {}
    for setting in SETTINGS:
        if flags.get(setting.name) is not None:
            given[setting.name] = flags[setting.name], setting.flag
        elif variable := next((each for each in setting.variables if _is_set(setting, each, environment)), None):
            given[setting.name] = environment[variable], variable
        elif (key := next((each for each in setting.keys if each in file), None)) is not None:
            given[setting.name] = file[key], f"{key} in {path}"
    return given


def _is_set(setting: Setting, variable: str, environment: Mapping[str, str]) -> bool:
    # For the pruner an empty variable is the same as none, but for PRUNER_URL: there it turns pruning off.
    is_empty_unset = bool(setting.pruner_variable) and setting.name != "pruner_url"
    return variable in environment and not (is_empty_unset and not environment[variable])


def _config_file() -> tuple[dict[str, Any], Path]:
    path = config_folder() / "config.toml"
    if not path.exists():
        return {}, path
    import tomllib

    try:
        file = tomllib.loads(disk.read_small_file(path).decode())
    except OSError as error:
        raise BadConfig(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadConfig(f"{path}: {error}") from None
    known = [setting.key for setting in DAEMON_SETTINGS]
    older = [setting.old_name for setting in DAEMON_SETTINGS if setting.old_name]
    table = file.pop("fleet", {})
    if not isinstance(table, dict):
        raise BadConfig(f'{path}: fleet is a table: [fleet], and in it url = "nats://…"')
    file.update({f"fleet.{key}": value for key, value in table.items()})
    if "fleet.trust" in file:
        raise BadConfig(f"fleet.trust in {path}: {_UNSIGNED}")
    for key in file:
        if key not in known and key not in older:
            hint = did_you_mean(key, known) or f"; there are {', '.join(known)}"
            raise BadConfig(f"{path}: there is no setting {key!r}{hint}")
    return file, path


def default_box_name() -> str:
    """The first part of the host's name, with what a name of a box cannot have replaced."""
    import platform

    name = re.sub(r"[^a-z0-9_-]+", "-", platform.node().partition(".")[0].lower()).strip("-_")[:40]
    return name or "box"


def config_folder() -> Path:
    """The folder of config.toml, and of tools.json unless it is elsewhere."""
    import platformdirs

    return platformdirs.user_config_path(APP, appauthor=False)
