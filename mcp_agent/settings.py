"""The table of settings: name, type, default, flag, environment variable and help of each one.

The command line, `config.load`, `mcp-pruner --help` and docs/settings.md are all made from this table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mcp_agent.process.logs import LEVELS
from registry.user_error import UsageError

PREFIX = "MCP_AGENT_"
DEFAULT_SERVICE = "http://localhost:8000/prune"
BUILT_IN = "builtin"
# A name of a box is a part of subjects of NATS and of the ids that the box gives.
BOX_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_LABEL_KEY = re.compile(r"[A-Za-z0-9][\w./-]{0,39}")
_LABEL_VALUE = re.compile(r"[\w.:/-]{0,80}")
_MOST_LABELS = 32
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# In the text form of NATS.


class BadConfig(UsageError):
    """A setting has a value that cannot be used. The message names the flag, the variable or the file."""


class SettingKind(NamedTuple):
    """The type of a setting. `parse` raises ValueError with the end of a sentence: "needs …"."""

    name: str
    parse: Callable[[Any], Any]


def _parse_text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("needs a value, a text")
    return value


def _parse_path(value: Any) -> Path:
    return Path(_parse_text(value)).expanduser().absolute()


def _parse_folder(value: Any) -> Path:
    path = _parse_path(value)
    if not path.is_dir():
        raise ValueError(f"{value} is not a folder")
    return path


def _parse_file(value: Any) -> Path:
    path = _parse_path(value)
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    return path


def _parse_switch(value: Any) -> bool:
    text = str(value).lower()
    if text not in ("true", "false", "1", "0"):
        raise ValueError(f"needs true or false, not {value!r}")
    return text in ("true", "1")


def _one_of(what: str, values: tuple[str, ...]) -> SettingKind:
    def parse(value: Any) -> str:
        chosen = _parse_text(value).lower()
        if chosen not in values:
            raise ValueError(f"the {what} must be one of {', '.join(values)}, not {chosen!r}")
        return chosen

    return SettingKind(" or ".join(values), parse)


def _parse_host_names(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError("needs names, separated by commas")
    cleaned = tuple(name.strip() for name in names if name.strip())
    for name in cleaned:
        if "/" in name or "*" in name or name.count(":") == 1:
            raise ValueError(f"{name!r} must be a bare name, without scheme, port or wildcard")
    return cleaned


def _parse_origins(value: Any) -> tuple[str, ...]:
    urls = value.split(",") if isinstance(value, str) else value
    if not isinstance(urls, list | tuple) or not all(isinstance(url, str) for url in urls):
        raise ValueError("needs URLs, separated by commas")
    return tuple(
        _origin(url, "the origin of a page, such as https://chat.example:8080")
        for url in filter(None, (url.strip() for url in urls))
    )


def parse_public_url(value: Any) -> str:
    from urllib.parse import urlsplit

    url = _origin(_parse_text(value).strip(), "a name with https:// before it and no path, such as https://box.example")
    if url.startswith("http:") and urlsplit(url).hostname not in _LOOPBACK:
        raise ValueError(f"{url} must begin with https://: what clients send there must not be read on the way")
    return url


def _origin(url: str, what: str) -> str:
    """An origin as a browser writes it: in lower case, without a port that goes without saying."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        port, is_usable = parts.port, parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        port, is_usable = None, False
    if not is_usable or not url.isascii() or parts.path not in ("", "/") or set("*?#@ ") & set(url):
        raise ValueError(f"{url[:200]!r} must be {what}")
    is_usual = port is None or port == {"http": 80, "https": 443}[parts.scheme]
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}" + ("" if is_usual else f":{port}")


def parse_service_url(value: Any) -> str:
    """The URL of a pruning service. The empty string turns pruning off, and `BUILT_IN` is the built-in engine."""
    from urllib.parse import urlsplit

    url = str(value)
    if url in ("", BUILT_IN):
        return url
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if is_usable and "@" in parts.netloc:
        # The URL itself is not in the message: other people read the log.
        raise ValueError("a URL with a user name or a password in it cannot be asked")
    if not is_usable or not url.isascii() or any(character <= " " for character in url):
        raise ValueError(f"needs an absolute http or https URL, not {url[:200]!r}")
    return url


def _number(least: int, most: int | None = None) -> SettingKind:
    bounds = f", {least} or more" if most is None else f" from {least} to {most}"

    def parse(value: Any) -> int:
        text = str(value).strip()
        # Nineteen digits are more than any bound, and few enough for int().
        is_whole = not isinstance(value, bool | float) and text.isascii() and text.isdigit() and len(text) < 20
        if not is_whole or int(text) < least or (most is not None and int(text) > most):
            raise ValueError(f"needs a whole number{bounds}, not {text[:60] if isinstance(value, str) else value!r}")
        return int(text)

    return SettingKind(f"whole number{bounds}", parse)


def _parse_box_name(value: Any) -> str:
    name = _parse_text(value)
    if BOX_NAME.fullmatch(name) is None:
        raise ValueError(f"{name[:60]!r} must be lower-case letters, digits, - and _, at most 40 of them")
    return name


def _parse_labels(value: Any) -> tuple[tuple[str, str], ...]:
    """`gpu=1`, several of them separated by commas, or a table of config.toml. In the order of their keys."""
    if isinstance(value, dict):
        pairs = {str(key): str(each).lower() if isinstance(each, bool) else str(each) for key, each in value.items()}
    else:
        texts = value.split(",") if isinstance(value, str) else value
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise ValueError("needs labels such as gpu=1")
        pairs = {}
        for text in filter(None, (text.strip() for each in texts for text in each.split(","))):
            key, equals, pairs[key] = text.partition("=")
            if not equals:
                raise ValueError(f"{text[:60]!r} must be a label with its value, such as gpu=1")
    for key, each in pairs.items():
        if _LABEL_KEY.fullmatch(key) is None or _LABEL_VALUE.fullmatch(each) is None:
            raise ValueError(f"the label {f'{key}={each}'[:120]!r} may have letters, digits and . _ - / : only")
    if len(pairs) > _MOST_LABELS:
        raise ValueError(f"a box has at most {_MOST_LABELS} labels")
    return tuple(sorted(pairs.items()))


_TEXT = SettingKind("text", _parse_text)
_PATH = SettingKind("path", _parse_path)
_FOLDER = SettingKind("folder", _parse_folder)
_FILE = SettingKind("file", _parse_file)
_SWITCH = SettingKind("true or false", _parse_switch)
_LEVEL = _one_of("level", LEVELS)
_LANGUAGE = _one_of("language", ("en", "fr"))
_HOST_NAMES = SettingKind("names", _parse_host_names)
_ORIGINS = SettingKind("URLs", _parse_origins)
_PUBLIC_URL = SettingKind("URL", parse_public_url)
_SERVICE_URL = SettingKind("URL", parse_service_url)
_PORT = _number(0, 65_535)
_BOX_NAME = SettingKind("name", _parse_box_name)
_LABELS = SettingKind("labels", _parse_labels)


class Setting(NamedTuple):
    """One setting. `name` is its field in `Config` and its key in config.toml.

    `default` None means that `config.load` computes the value, or that there is none; `default_help` describes it.
    A pruner setting has only a variable, no flag and no key: other programs set it for `mcp-pruner` by that name.
    """

    name: str
    kind: SettingKind
    default: Any
    help: str
    default_help: str = ""
    pruner_variable: str = ""
    # Its key in the table [fleet] of config.toml, for a setting that is there.
    fleet_key: str = ""
    # What its flag, its variable and its key were called before; they are still read.
    old_name: str = ""

    @property
    def key(self) -> str:
        """Where it is in config.toml."""
        return f"fleet.{self.fleet_key}" if self.fleet_key else self.name

    @property
    def variable(self) -> str:
        return self.pruner_variable or f"{PREFIX}{self.name.upper()}"

    @property
    def keys(self) -> tuple[str, ...]:
        """Its key, and the older one."""
        return (self.key, self.old_name) if self.old_name else (self.key,)

    @property
    def variables(self) -> tuple[str, ...]:
        """Its variable, and the older one."""
        return (self.variable, f"{PREFIX}{self.old_name.upper()}") if self.old_name else (self.variable,)

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def shown_default(self) -> str:
        return self.default_help or str(self.default).lower()

    def parse(self, value: Any, source: str) -> Any:
        """The value, checked. Raises BadConfig, which names `source`: a flag, a variable or a place in a file."""
        try:
            return self.kind.parse(value)
        except ValueError as error:
            raise BadConfig(f"{source}: {error}") from None


SETTINGS = (
    Setting("host", _TEXT, "127.0.0.1", "address to listen on; 0.0.0.0 is every network of this machine"),
    Setting("port", _PORT, 8765, "port to listen on; 0 takes a free one"),
    Setting(
        "tools_file",
        _PATH,
        None,
        "the tools.json with profiles and switches",
        "tools.json in the user's config folder",
        old_name="config",
    ),
    Setting(
        "profile", _TEXT, None, "profile to use instead of the active one of tools.json", "the file's activeProfile"
    ),
    Setting("state_dir", _PATH, None, "folder for the token and other state", "the user's state folder for mcp-agent"),
    Setting("token_file", _PATH, None, "file with the token; created if missing", "token in the state folder"),
    Setting("allow_host", _HOST_NAMES, (), "another name this daemon answers to; may be given several times", "none"),
    Setting(
        "allow_origin", _ORIGINS, (), "a web page that may call it from a browser; may be given several times", "none"
    ),
    Setting(
        "public_url",
        _PUBLIC_URL,
        None,
        "the https:// name by which the internet reaches this daemon; switches OAuth on",
        "none, and no OAuth",
    ),
    Setting("tls_cert", _FILE, None, "certificate for HTTPS; needs tls_key", "plain HTTP"),
    Setting("tls_key", _FILE, None, "private key of tls_cert", "plain HTTP"),
    Setting("journal_mb", _number(0), 200, "most megabytes of old file contents kept for undo"),
    Setting("journal_days", _number(0), 7, "days for which a change can be undone"),
    Setting(
        "command_undo",
        _SWITCH,
        True,
        "false does not look at what commands change: their results do not say it, and it cannot be undone",
    ),
    Setting("artifacts_mb", _number(0), 1000, "most megabytes of artifacts kept in total"),
    Setting("artifacts_caller_mb", _number(0), 100, "most megabytes of artifacts kept for one caller"),
    Setting("artifacts_days", _number(0), 7, "days for which an artifact is kept"),
    Setting(
        "text_bytes",
        _number(2_000),
        32_000,
        "most bytes of a result in text form whose call names no size; clients that cut earlier get less",
    ),
    Setting(
        "yield_ms",
        _number(0),
        45_000,
        "milliseconds after which a command of an MCP client becomes a session; 0 means never",
    ),
    Setting("syntax_checks", _SWITCH, True, "false does not look for new syntax errors after a change of a file"),
    Setting("max_sessions", _number(1), 10, "most sessions that run at the same time"),
    Setting("session_age_s", _number(1), 3600, "seconds after which a session is stopped"),
    Setting(
        "session_spool_mib", _number(8), 64, "megabytes of output kept for each session: the first one and the newest"
    ),
    Setting("stop_on_disconnect", _SWITCH, False, "true stops a client's sessions when it disconnects"),
    Setting(
        "approval_s", _number(5, 86_400), 600, "seconds after which a question to the owner that nobody answers is a no"
    ),
    Setting(
        "approval_hold_s",
        _number(1, 300),
        None,
        "seconds for which a call is held that waits for the owner, whichever client has sent it",
        "45, and up to 240 for clients known to bear it",
    ),
    Setting("markers", _LANGUAGE, "en", "language of the markers that stand for pruned lines: en or fr"),
    Setting(
        "fleet", _TEXT, None, "NATS server of the fleet to be a member of: nats://host:4222", "none", fleet_key="url"
    ),
    Setting("box", _BOX_NAME, None, "name of this machine in its fleet", "the host's name", fleet_key="box"),
    Setting("creds", _FILE, None, "file with the credentials for NATS", "none", fleet_key="creds"),
    Setting(
        "label",
        _LABELS,
        (),
        "a label of this box, such as gpu=1; may be given several times",
        "none",
        fleet_key="label",
    ),
    Setting(
        "fleet_profile",
        _TEXT,
        None,
        "profile for calls that come by way of a gateway",
        "the active one",
        fleet_key="profile",
    ),
    Setting("log_level", _LEVEL, "info", f"how much to log: {', '.join(LEVELS)}"),
    Setting(
        "pruner_url",
        _SERVICE_URL,
        None,
        "a pruning service to ask instead of the built-in engine, or `builtin`; empty turns pruning off",
        "unset",
        "PRUNER_URL",
    ),
    Setting(
        "pruner_timeout_ms",
        _number(100, 300_000),
        30_000,
        "milliseconds that pruning the output of a tool may take",
        pruner_variable="PRUNER_TIMEOUT_MS",
    ),
    Setting(
        "pruner_cwd",
        _FOLDER,
        None,
        "the folder that read, bash and grep work in and cannot leave",
        "in the daemon none; in `mcp-pruner` the working directory",
        "MCP_PRUNER_CWD",
    ),
    Setting(
        "pruner_max_input_chars",
        _number(1, 1_000_000_000),
        2_000_000,
        "longest text that the built-in engine is given",
        pruner_variable="MCP_PRUNER_MAX_INPUT_CHARS",
    ),
    Setting(
        "pruner_ttl_s",
        _number(1, 31_536_000),
        3600,
        "seconds for which pruned lines can be brought back",
        pruner_variable="MCP_PRUNER_PRUNE_ID_TTL_S",
    ),
    Setting(
        "pruner_host",
        _TEXT,
        "127.0.0.1",
        "address that `mcp-pruner http` listens on",
        pruner_variable="MCP_PRUNER_HOST",
    ),
    Setting(
        "pruner_port",
        _PORT,
        8006,
        "port that `mcp-pruner http` listens on; 0 takes a free one",
        pruner_variable="MCP_PRUNER_PORT",
    ),
)
DAEMON_SETTINGS = tuple(setting for setting in SETTINGS if not setting.pruner_variable)
PRUNER_SETTINGS = tuple(setting for setting in SETTINGS if setting.pruner_variable)
