"""The pruner's own environment variables, read once and checked.

Their names come from the services that ours can stand in for, so they do not begin like our other settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from mcp_agent.config import BadConfig
from tools.kit.records import record

DEFAULT_SERVICE = "http://localhost:8000/prune"


class Variable(NamedTuple):
    name: str
    help: str
    default: str


VARIABLES = (
    Variable("PRUNER_URL", "a pruning service to ask instead of the built-in engine; empty turns pruning off", "unset"),
    Variable("PRUNER_TIMEOUT_MS", "how long pruning the output of a tool may take, 100 to 300000", "30000"),
    Variable("MCP_PRUNER_CWD", "the folder that read, bash and grep work in", "the working directory"),
    Variable("MCP_PRUNER_MAX_INPUT_CHARS", "longest text that the built-in engine is given", "2000000"),
    Variable("MCP_PRUNER_PRUNE_ID_TTL_S", "seconds for which pruned lines can be brought back", "3600"),
    Variable("MCP_PRUNER_HOST", "address that `mcp-pruner http` listens on", "127.0.0.1"),
    Variable("MCP_PRUNER_PORT", "port that `mcp-pruner http` listens on; 0 takes a free one", "8006"),
)


@record
class PruningSettings:
    """`url` None is the built-in engine and the empty string is no pruning at all."""

    url: str | None
    timeout_s: float
    root: Path
    max_input_chars: int
    ttl_s: float
    host: str
    port: int


def load(environment: Mapping[str, str], working_directory: Path, default_url: str | None) -> PruningSettings:
    """Raises BadConfig with one sentence on the first variable that cannot be used."""
    url = environment.get("PRUNER_URL", default_url)
    if url:
        check_url("PRUNER_URL", url)
    root = Path(environment.get("MCP_PRUNER_CWD") or working_directory)
    if not root.is_dir():
        raise BadConfig(f"MCP_PRUNER_CWD: {root} is not a folder")
    return PruningSettings(
        url=url,
        timeout_s=_number(environment, "PRUNER_TIMEOUT_MS", 30_000, 100, 300_000) / 1000,
        root=root.absolute(),
        max_input_chars=_number(environment, "MCP_PRUNER_MAX_INPUT_CHARS", 2_000_000, 1, 1_000_000_000),
        ttl_s=_number(environment, "MCP_PRUNER_PRUNE_ID_TTL_S", 3_600, 1, 31_536_000),
        host=environment.get("MCP_PRUNER_HOST") or "127.0.0.1",
        port=_number(environment, "MCP_PRUNER_PORT", 8006, 0, 65_535),
    )


def check_url(name: str, url: str) -> None:
    """Raises BadConfig unless the value of the variable `name` is a URL that can be asked."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if is_usable and "@" in parts.netloc:
        # Not shown: what the log says is read by others.
        raise BadConfig(f"{name}: a URL with a user name or a password in it cannot be asked")
    if not is_usable or not url.isascii() or any(character <= " " for character in url):
        raise BadConfig(f"{name}: needs an absolute http or https URL, not {url[:200]!r}")


def _number(environment: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = environment.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise BadConfig(f"{name}: needs a whole number from {least} to {most}, not {text[:60]!r}")
    return int(text)
