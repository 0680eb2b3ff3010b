"""Our daemon with a tool that tells every client something; its argument is the token that it takes."""

from __future__ import annotations

import sys
from collections.abc import Callable

from mcp_agent import server
from mcp_agent.app import compose_daemon
from mcp_agent.config import load
from mcp_agent.events.types import ToolsChanged
from mcp_agent.process.logs import logging_to, standard_error
from mcp_agent.routes import http_app
from mcp_agent.security.auth_tokens import Tokens
from registry.catalog import Catalog
from tests.benchmarks.subjects.echo import Echo, echo
from tools.context import ToolContext
from tools.kit.spec import Tool, tool


def announcing(publish: list[Callable[[ToolsChanged], None]]) -> Tool:
    """The tool; what it publishes with is put into the list once there is a daemon."""

    @tool("filesystem", effect="read")
    async def announce(ctx: ToolContext) -> Echo:
        """Tell every client that something is different."""
        publish[0](ToolsChanged())
        return Echo("told")

    return announce


def main(token: str) -> None:
    config = load({"port": 0})
    publish: list[Callable[[ToolsChanged], None]] = []
    daemon = compose_daemon(config, Catalog([echo, announcing(publish)]))
    publish.append(daemon.hub.publish)
    tokens = Tokens(config.token_file, config.clients_file, token)
    tokens.reload()
    listener = server.bind(config.host, config.port)
    with logging_to(standard_error(), config.log_level):
        server.serve(daemon, http_app(daemon, tokens), tokens, listener, lambda url: print(url, flush=True))


if __name__ == "__main__":
    main(sys.argv[1])
