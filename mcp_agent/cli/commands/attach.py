"""`mcp-agent stdio --attach`: a client's server that is a bridge to the one daemon of this user and state folder.

Where none is running, one is started, which stays; where that fails, this process serves its client alone. It says on
standard error which of the three it is.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
import urllib.parse

from mcp_agent.cli.clients.reach import program
from mcp_agent.cli.commands import daemon_client
from mcp_agent.config import Config
from mcp_agent.process.logs import logging_to, standard_error
from mcp_agent.transports.stdio_bridge import Address, run_bridge

_START_S = 20.0
_OTHER_S = 2.0
_LOOK_EVERY_S = 0.1


def attach(options: argparse.Namespace, config: Config) -> bool:
    """Serve the client through the running daemon. False if there is none and none can be started."""
    if (url := daemon_client.address(config)) is not None:
        _say(f"attached to the daemon at {url}")
    elif (url := _start(options, config)) is not None:
        _say(f"started a daemon at {url}; it stays when this client goes")
    else:
        return False
    profile = "" if config.profile is None else f"/{urllib.parse.quote(config.profile, safe='')}"

    def find() -> Address | None:
        daemon = daemon_client.find(config)
        return None if daemon is None else Address(f"{daemon.reachable_url}/mcp{profile}", daemon.token)

    with logging_to(standard_error(), config.log_level):
        asyncio.run(run_bridge(find))
    return True


def _start(options: argparse.Namespace, config: Config) -> str | None:
    """Start a daemon that outlives us, and return its address; None if it does not come up."""
    command = [program(), "serve", "--state-dir", str(config.state_dir), "--config", str(config.config)]
    log_file = config.state_dir / "serve.log"
    # On its usual port, else on any: it is found through the file that it writes.
    for port in ([], ["--port", "0"]):
        try:
            with log_file.open("ab") as log:
                process: subprocess.Popen[bytes] | None = subprocess.Popen(
                    [*command, *port],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        except OSError as error:
            _say(f"no daemon could be started: {error}")
            return None
        until = time.monotonic() + _START_S
        while time.monotonic() < until:
            if (url := daemon_client.address(config)) is not None:
                return url
            if process is not None and process.poll() is not None:
                # Another may be starting at the same time, and have the state folder; it is there in a moment.
                until, process = min(until, time.monotonic() + _OTHER_S), None
            time.sleep(_LOOK_EVERY_S)
    _say(f"no daemon could be started; {log_file} says why")
    return None


def _say(sentence: str) -> None:
    print(f"mcp-agent: {sentence}", file=sys.stderr)
