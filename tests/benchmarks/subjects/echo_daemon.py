"""Our daemon with a trivial tool among its own, on a free port; its argument is the token that it takes."""

from __future__ import annotations

import sys

from mcp_agent import server
from mcp_agent.app import compose_daemon
from mcp_agent.config import load
from mcp_agent.process.logs import logging_to, standard_error
from mcp_agent.routes import http_app
from mcp_agent.security.auth_tokens import Tokens
from registry.catalog import Catalog, discover
from tests.benchmarks.subjects.echo import echo


def main(token: str) -> None:
    config = load({"port": 0})
    daemon = compose_daemon(config, Catalog([*discover().tools, echo]))
    tokens = Tokens(config.token_file, config.clients_file, token)
    tokens.reload()
    listener = server.bind(config.host, config.port)
    with logging_to(standard_error(), config.log_level):
        server.serve(daemon, http_app(daemon, tokens), tokens, listener, lambda url: print(f"{url}/mcp", flush=True))


if __name__ == "__main__":
    main(sys.argv[1])
