"""Our daemon on a free port, with records and rules or without: `on`, `compact` or `off`, then the token that it takes.

Off, nothing is written down or counted, and nothing is denied. Compact is on, with short responses too. That a result
must fit one message has no switch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mcp_agent import server
from mcp_agent.app import compose_daemon
from mcp_agent.config import load
from mcp_agent.process.logs import logging_to, standard_error
from mcp_agent.routes import http_app
from mcp_agent.security.auth_tokens import Tokens
from tests.support import ROOT

_RULES = ROOT / "examples" / "guarded.json"


def main(switch: str, token: str) -> None:
    home = Path(switch).absolute()
    home.mkdir()
    if switch != "off":
        document = json.loads(_RULES.read_text("utf-8"))
        document["profiles"][0]["response"] = {"mode": "compact" if switch == "compact" else "full"}
        (home / "tools.json").write_text(json.dumps(document))
    config = load({"port": 0, "tools_file": str(home / "tools.json"), "state_dir": str(home)})
    daemon = compose_daemon(config, observed=switch != "off")
    tokens = Tokens(config.token_file, config.clients_file, token)
    tokens.reload()
    listener = server.bind(config.host, config.port)
    with logging_to(standard_error(), config.log_level):
        server.serve(daemon, http_app(daemon, tokens), tokens, listener, lambda url: print(f"{url}/mcp", flush=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
