"""Which path of `mcp-pruner http` leads where. It stands behind the same guard as the daemon."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_agent.calls.call import Call, Caller, Success
from mcp_agent.host import Host
from mcp_agent.protocol.methods import new_call_id
from mcp_agent.security import addresses
from mcp_agent.security.auth_tokens import Tokens
from mcp_agent.security.guard import Guard
from mcp_agent.transports.artifact_download import ArtifactDownload
from mcp_agent.transports.http import send_error, send_object
from mcp_agent.transports.prune import Prune
from mcp_agent.transports.rpc import Rpc
from registry.gate import Access


def pruner_app(host: Host, tokens: Tokens | None, *, is_open_to_the_network: bool) -> ASGIApp:
    """Every path of the pruner. Without `tokens` it needs no token, so it must be on loopback."""
    assert tokens is not None or not is_open_to_the_network, "beyond loopback a token is needed"
    paths: dict[str, ASGIApp] = {
        "/rpc": Rpc(host.methods),
        "/prune": Prune(host.gate, host.pruner),
        "/health": _Health(host),
    }

    artifacts = ArtifactDownload(host.artifacts, host.gate, host.audit)

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        match scope["path"].split("/"):
            case ["", "artifacts", domain, name]:
                await artifacts({**scope, "path_params": {"domain": domain, "id": name}}, receive, send)
            case _:
                await paths.get(scope["path"], _not_found)(scope, receive, send)

    names = addresses.own_names() if is_open_to_the_network else ()
    return Guard(route, tokens, host.streams, names, is_open_to_the_network=is_open_to_the_network, takes_names=False)


class _Health:
    """GET /health: the same object as the tool's."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await send_error(send, 405, "use GET here", headers={"allow": "GET"})
            return
        call = Call(new_call_id(), Caller("health", Access(), "http"), "health", {})
        outcome = await self._host.dispatcher.call(call)
        assert isinstance(outcome, Success), "health takes no arguments and cannot fail"
        await send_object(send, 200, outcome.reply.as_object())


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    await send_error(send, 404, f"there is nothing at {scope['path'][:100]}", "the pruner is at /rpc")
