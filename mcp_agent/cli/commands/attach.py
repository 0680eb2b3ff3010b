"""`mcp-agent stdio --attach`: a client's server that is a bridge to the one daemon of this user and state folder.

Where none is running, one is started, which stays; where that fails, this process serves its client alone. It says on
standard error which of the three it is.
"""

from __future__ import annotations

import asyncio
import sys
import urllib.parse
from pathlib import Path

from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.running import start_in_background
from mcp_agent.config import Config
from mcp_agent.process.logs import logging_to, standard_error
from mcp_agent.transports.stdio_bridge import Address, run_bridge
from registry.profiles import Form
from registry.user_error import UserError


def attach(config: Config, form: Form) -> bool:
    """Serve the client through the running daemon. False if there is none and none can be started."""
    if (url := daemon_client.address(config)) is not None:
        _say(f"attached to the daemon at {url}")
    elif (url := _start(config)) is not None:
        _say(f"started a daemon at {url}; it stays when this client goes")
    else:
        return False
    profile = "" if config.profile is None else f"/{urllib.parse.quote(config.profile, safe='')}"

    def find() -> Address | None:
        daemon = daemon_client.find(config)
        return None if daemon is None else Address(f"{daemon.reachable_url}/mcp{profile}", daemon.token)

    with logging_to(standard_error(), config.log_level):
        asyncio.run(run_bridge(find, form))
    return True


def _start(config: Config) -> str | None:
    """Start a daemon, and return its address; None if it does not come up."""
    serve = ["serve", "--state-dir", str(config.state_dir), "--tools-file", str(config.tools_file)]
    problem = UserError("")
    # On its usual port, else on any: it is found through the file that it writes.
    for port in ([], ["--port", "0"]):
        try:
            return str(start_in_background(config, [*serve, *port], Path.cwd()).url)
        except UserError as error:
            problem = error
    _say(str(problem))
    return None


def _say(sentence: str) -> None:
    print(f"mcp-agent: {sentence}", file=sys.stderr)
