"""`mcp-agent serve` with what the conformance suites want to find, behind a small proxy of the tests' own.

The suites cannot send a token, so the proxy adds it in front of the guard, which then does all that it always does.
They also want a server that breaks a connection in the middle of a call; a daemon has no reason to, so the proxy
does that too, as proxies do: the stream of `test_reconnection` is cut after its first event.
"""

from __future__ import annotations

import argparse
import sys

from starlette.types import ASGIApp, Message, Receive, Scope, Send

import tests.conformance.server
from mcp_agent import server
from mcp_agent.app import compose_daemon
from mcp_agent.config import load
from mcp_agent.daemon import Daemon
from mcp_agent.process.logs import logging_to, standard_error
from mcp_agent.routes import http_app
from mcp_agent.security.auth_tokens import Tokens
from registry.catalog import Catalog, discover
from registry.edits import Switch
from registry.gate import Access
from tests.conformance.server.documents import FixturePrompts, FixtureResources
from tests.conformance.server.fixtures import Text, test_switched
from tools.context import ToolContext
from tools.kit.spec import Tool, tool

_TOKEN = "the-token-of-the-conformance-tests"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools-file", required=True)
    daemons: list[Daemon] = []
    catalog = Catalog([*discover().tools, *discover(tests.conformance.server).tools, _trigger(daemons)])
    config = load({"tools_file": parser.parse_args().tools_file, "port": "0"})
    daemons.append(compose_daemon(config, catalog, resources=[FixtureResources()], prompts=[FixturePrompts()]))
    tokens = Tokens(config.token_file, config.clients_file, _TOKEN)
    tokens.reload()
    listener = server.bind("127.0.0.1", 0)
    # The whole daemon as it is, with the proxy around what its server is given to serve.
    app = Proxy(http_app(daemons[0], tokens))
    with logging_to(standard_error(), "info"):
        return server.serve(daemons[0], app, tokens, listener, lambda url: print(url, flush=True))


class Proxy:
    """Adds the token to every request, and breaks the connection of one call after its first event."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["headers"] = [*scope["headers"], (b"authorization", f"Bearer {_TOKEN}".encode())]
            connection = _Connection(receive, send)
            receive, send = connection.receive, connection.send
        await self._app(scope, receive, send)


class _Connection:
    """One request and its answer, as they pass."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._breaks = self._is_broken = False

    async def receive(self) -> Message:
        if self._is_broken:
            return {"type": "http.disconnect"}
        message = await self._receive()
        self._breaks = self._breaks or b'"test_reconnection"' in message.get("body", b"")
        return message

    async def send(self, message: Message) -> None:
        if self._is_broken:
            return
        if self._breaks and message.get("body"):
            self._is_broken = True
            message = {**message, "more_body": False}
        await self._send(message)


def _trigger(daemons: list[Daemon]) -> Tool:
    @tool("conformance", effect="write")
    async def test_trigger_tool_change(ctx: ToolContext) -> Text:
        """Switch another tool on or off, as its owner would."""
        gate = daemons[0].gate
        is_on = test_switched in gate.visible(Access())
        daemons[0].apply(daemons[0].file.edit(Switch(target=test_switched.name, enabled=not is_on)))
        return Text("off" if is_on else "on")

    return test_trigger_tool_change


if __name__ == "__main__":
    sys.exit(main())
