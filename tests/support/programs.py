"""The programs of others that the tests run, each at one version.

`python -m tests.support.programs` installs those that are missing and says so, before the clock of any test runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support import cache, node


def typescript_sdk() -> Path:
    return node.installed("@modelcontextprotocol/sdk", "1.32.2")


def typescript_client() -> Path:
    return node.installed("@modelcontextprotocol/client", "2.4.0")


def inspector() -> Path:
    return node.installed("@modelcontextprotocol/inspector", "2.12.0")


def conformance_suite() -> Path:
    return node.installed("@modelcontextprotocol/conformance", "0.1.16")


def next_conformance_suite() -> Path:
    return node.installed("@modelcontextprotocol/conformance", "0.2.0-alpha.12")


def mcpo() -> str:
    """The interpreter that has it. It needs the first generation of the official client, and ours is the second."""
    return cache.python("mcpo==0.0.20", "mcp<2", "fastapi==0.128.0")


def schemathesis() -> str:
    """The interpreter that has it."""
    return cache.python("schemathesis==4.32.5")


_ALL: tuple[Callable[[], object], ...] = (
    typescript_sdk,
    typescript_client,
    inspector,
    conformance_suite,
    next_conformance_suite,
    mcpo,
    schemathesis,
)

if __name__ == "__main__":
    for number, program in enumerate(_ALL, 1):
        name = program.__name__.replace("_", " ")
        print(f"    {number} of {len(_ALL)}: {name}", flush=True)
        program()
