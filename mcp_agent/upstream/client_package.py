"""The official MCP client is an extra: most daemons mount nothing, and it is a quarter of what would be installed."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
import sys

from registry.user_error import UserError

_DISTRIBUTION = "mcp-agent-host"
_EXTRA = re.compile(r"""\s*;\s*extra == ['"]mount['"]$""")


def import_client() -> None:
    """Import the client library, which takes half a second. Raises UserError if it is not installed."""
    # It may have been installed since the daemon has started.
    importlib.invalidate_caches()
    try:
        for name in ("mcp.client", "mcp.client.streamable_http", "mcp.client.subscriptions", "httpx2"):
            importlib.import_module(name)
    except ImportError as error:
        raise UserError(f"the client of mounted servers is not installed ({error}); {_advice()}") from None


def _advice() -> str:
    # It is slow to load, and only needed for this sentence.
    import importlib.metadata

    requirements = [
        _EXTRA.sub("", each) for each in importlib.metadata.requires(_DISTRIBUTION) or () if _EXTRA.search(each)
    ]
    packages = shlex.join(requirements)
    if importlib.util.find_spec("pip") is None:
        return f"install it into the environment of mcp-agent ({sys.prefix}): {packages}"
    return f"install it with: {shlex.quote(sys.executable)} -m pip install {packages}"
