"""What `connect … --print` prints for a framework, run by that framework."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.daemon import Daemon
from tests.support.programs import frameworks

# A call that takes longer than one of them waits unless it is told to.
_CALL = '"shell_exec", {"command": "sleep 6; echo hello"}'
_USES = {
    "langchain": f"""
async def use():
    tools = {{tool.name: tool for tool in await client.get_tools()}}
    name, arguments = {_CALL}
    return len(tools), str(await tools[name].ainvoke(arguments))
""",
    "openai-agents": f"""
async def use():
    async with server:
        return len(await server.list_tools()), str(await server.call_tool({_CALL}))
""",
    "pydantic-ai": f"""
async def use():
    async with server:
        return len(await server.list_tools()), str(await server.direct_call_tool({_CALL}))
""",
    # It needs the program of the other tests; that it takes the options is what can be seen here.
    "claude-agent-sdk": """
async def use():
    assert set(options.mcp_servers) == {"devbox"} and options.allowed_tools == ["mcp__devbox__*"]
    return 20, "hello"
""",
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("flags", [(), ("--stdio",)], ids=["http", "stdio"])
@pytest.mark.parametrize("name", _USES)
def test_it_lists_the_tools_and_waits_for_a_call(shared_daemon: Daemon, name: str, flags: tuple[str, ...]) -> None:
    printed = shared_daemon.cli("connect", name, "--print", *flags).stdout
    script = f"{printed}\n{_USES[name]}\nimport asyncio\nprint(*asyncio.run(use()))"
    done = subprocess.run([frameworks(), "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("20 ")
    assert "hello" in done.stdout
    assert "structured_content={" not in done.stdout
