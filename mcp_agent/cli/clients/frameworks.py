"""What to paste into a program of one's own: frameworks, SDKs and runners. They are printed, never written."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from mcp_agent.cli.clients.known_clients import find_client
from mcp_agent.cli.clients.reach import Http, Reach, Stdio
from registry.user_error import UsageError

# In Python; a program is sent text only where it asks for it.
_HEADERS = '{"Authorization": f"Bearer {token}", "X-MCP-Agent-Form": "text"}'


def _token(reach: Http) -> str:
    return f"token = Path({json.dumps(str(reach.token_file))}).read_text().strip()"


def _command(reach: Stdio) -> str:
    """The start of a server, in Python. A program is sent text only where the server is told so."""
    return json.dumps({"command": reach.command, "args": [*reach.arguments, "--form", "text"]})


def _claude_agent_sdk(name: str, reach: Reach) -> str:
    if isinstance(reach, Stdio):
        return f"""\
from claude_agent_sdk import ClaudeAgentOptions

options = ClaudeAgentOptions(
    mcp_servers={{{json.dumps(name)}: {_command(reach)}}},
    allowed_tools=[{json.dumps(f"mcp__{name}__*")}],
)
"""
    return f"""\
from pathlib import Path

from claude_agent_sdk import ClaudeAgentOptions

{_token(reach)}
options = ClaudeAgentOptions(
    mcp_servers={{
        {json.dumps(name)}: {{
            "type": "http",
            "url": {json.dumps(reach.url)},
            "headers": {_HEADERS},
        }}
    }},
    allowed_tools=[{json.dumps(f"mcp__{name}__*")}],
)
"""


def _codex_exec(name: str, reach: Reach) -> str:
    codex = find_client("codex")
    assert codex is not None, "it is one of those that we know"
    entry = reach.entry(codex)
    settings = [f"mcp_servers.{name}.{key}={json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
    return " \\\n  ".join(["codex exec", *(f"--config {shlex.quote(each)}" for each in settings), '"$PROMPT"']) + "\n"


def _langchain(name: str, reach: Reach) -> str:
    if isinstance(reach, Stdio):
        return f"""\
from langchain_mcp_adapters.client import MultiServerMCPClient

client = MultiServerMCPClient({{{json.dumps(name)}: {{"transport": "stdio", **{_command(reach)}}}}})
# In a coroutine: tools = await client.get_tools()
"""
    return f"""\
from pathlib import Path

from langchain_mcp_adapters.client import MultiServerMCPClient

{_token(reach)}
client = MultiServerMCPClient(
    {{
        {json.dumps(name)}: {{
            "transport": "streamable_http",
            "url": {json.dumps(reach.url)},
            "headers": {_HEADERS},
        }}
    }}
)
# In a coroutine: tools = await client.get_tools()
"""


def _openai_agents(name: str, reach: Reach) -> str:
    if isinstance(reach, Stdio):
        return f"""\
from agents.mcp import MCPServerStdio

server = MCPServerStdio(
    name={json.dumps(name)},
    params={_command(reach)},
    # It gives a call five seconds unless told otherwise.
    client_session_timeout_seconds=120,
)
# In a coroutine: async with server: agent = Agent(name="…", mcp_servers=[server])
"""
    return f"""\
from pathlib import Path

from agents.mcp import MCPServerStreamableHttp

{_token(reach)}
server = MCPServerStreamableHttp(
    name={json.dumps(name)},
    params={{
        "url": {json.dumps(reach.url)},
        "headers": {_HEADERS},
        "timeout": 60,
    }},
    # It gives a call five seconds unless told otherwise.
    client_session_timeout_seconds=120,
)
# In a coroutine: async with server: agent = Agent(name="…", mcp_servers=[server])
"""


def _pydantic_ai(name: str, reach: Reach) -> str:
    if isinstance(reach, Stdio):
        return f"""\
from fastmcp.client.transports import StdioTransport
from pydantic_ai.mcp import MCPToolset

server = MCPToolset(
    StdioTransport(**{_command(reach)}),
    id={json.dumps(name)},
    read_timeout=120,
)
# agent = Agent("…", toolsets=[server])
"""
    return f"""\
from pathlib import Path

from pydantic_ai.mcp import MCPToolset

{_token(reach)}
server = MCPToolset(
    {json.dumps(reach.url)},
    headers={_HEADERS},
    id={json.dumps(name)},
    read_timeout=120,
)
# agent = Agent("…", toolsets=[server])
"""


def _runner(name: str, reach: Reach) -> str:
    """The pruner of a runner, which starts it for the folder that its agent works in."""
    from mcp_agent.programs.pruner.runner import SERVER_NAME, is_enabled, pruner_server

    if not is_enabled(os.environ):
        return "{}\n"
    server = pruner_server(os.environ, Path.cwd())
    return json.dumps({SERVER_NAME: server.as_object()}, indent=2) + "\n"


def _open_webui(name: str, reach: Reach) -> str:
    if isinstance(reach, Stdio):
        raise UsageError("Open WebUI reaches a server by its URL alone: use --url, or run it where the daemon is")
    connection = {
        "type": "mcp",
        "url": reach.url,
        "auth_type": "bearer",
        "key": reach.token,
        "headers": {
            "X-MCP-Agent-Form": "text",
            "X-OpenWebUI-Chat-Id": "{{CHAT_ID}}",
            "X-OpenWebUI-Message-Id": "{{MESSAGE_ID}}",
            "X-OpenWebUI-User-Id": "{{USER_ID}}",
        },
        "info": {"id": name, "name": name, "description": "Files and commands of this machine (mcp-agent)"},
        "config": {"enable": True, "access_grants": []},
    }
    return json.dumps([connection], indent=2) + "\n"


OPEN_WEBUI = "open-webui"
PRINTED: Mapping[str, Callable[[str, Reach], str]] = {
    OPEN_WEBUI: _open_webui,
    "claude-agent-sdk": _claude_agent_sdk,
    "codex-exec": _codex_exec,
    "langchain": _langchain,
    "openai-agents": _openai_agents,
    "pydantic-ai": _pydantic_ai,
    "runner": _runner,
}
