"""`mcp-agent call TOOL key=value…`: a tool's result on the terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from typing import Any

import orjson

from mcp_agent.answers.reply import Compact
from mcp_agent.calls.call import Call, Caller, Failure, Outcome, Page, Refusal
from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.daemon_client import RunningDaemon
from mcp_agent.cli.commands.policy_change import read_registry
from mcp_agent.cli.declaration import COMMON, CommandReply, argument, command
from mcp_agent.config import Config, load
from mcp_agent.process.printing import progress
from mcp_agent.protocol.methods import new_call_id
from mcp_agent.security import auth_tokens
from registry.gate import Access
from registry.user_error import UsageError
from tools.files.paths import to_wire
from tools.kit.errors import InvalidParams


@command(
    "call",
    argument("tool", metavar="TOOL", completed="tools", help="its name; mcp-agent tools lists them"),
    argument(
        "arguments",
        nargs="*",
        metavar="key=value",
        help="a value that is valid JSON is read as JSON, any other as text; a relative path counts from here",
    ),
    settings=COMMON,
    examples=("mcp-agent call fs_list path=.", "mcp-agent call shell_exec command='make test' --json"),
    streams=True,
)
def call(options: Namespace) -> CommandReply:
    """Call a tool of the running daemon, or in this process if none is running, and print its result."""
    config = load(vars(options))
    arguments = dict(_parse_argument(text) for text in options.arguments)
    form = "json" if options.json else "text"
    daemon = daemon_client.find_by(options, config)
    # The tools of a gateway run on other machines.
    if daemon is not None and "gateway" not in daemon.ask("GET", "/health").get("fleet", {}):
        arguments = _from_here(daemon, config, options.tool, arguments)
    with progress(f"calling {options.tool}"):
        found = None if daemon is None else _call_daemon(daemon, config, options.tool, arguments, form)
        answer = found or _call_in_process(config, options.tool, arguments, form)
    text, is_error = answer
    print(text, file=sys.stderr if is_error else sys.stdout)
    return CommandReply(None, _exit_code(text, form) if is_error else 0)


def _exit_code(error: str, form: str) -> int:
    """2 for arguments that the tool does not take, which were typed wrong; 1 for what failed."""
    code = orjson.loads(error).get("error", {}).get("code") if form == "json" else error[1:].partition("]")[0]
    return 2 if code == InvalidParams.code else 1


def _from_here(daemon: RunningDaemon, config: Config, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with relative paths made absolute: the daemon would count them from its own folder.

    A tool that takes a folder to work in and is given none works in this one.
    """
    _, profiles, catalog = read_registry(config, daemon)
    found = catalog.by_name.get(tool)
    if found is None:
        return arguments
    mount = profiles.mounts.get(found.category)
    declared = [(name, *field.aliases) for name, field in found.parameters.fields.items() if field.is_path]
    paths = {name for names in (*declared, () if mount is None else mount.paths) for name in names}
    here = os.getcwd()  # noqa: PTH109 - the logical path, as the user typed it
    absolute = {name: _absolute(here, value) if name in paths else value for name, value in arguments.items()}
    return {"cwd": here, **absolute} if "cwd" in paths and not paths & arguments.keys() else absolute


def _absolute(here: str, path: Any) -> Any:
    if isinstance(path, list):
        return [_absolute(here, each) for each in path]
    # References such as ax:// and undo://, and what the daemon itself expands.
    is_relative = isinstance(path, str) and path and "://" not in path and path[0] not in "/~$"
    return os.path.normpath(os.path.join(here, path)) if is_relative else path  # noqa: PTH118 - ~ stays


def _parse_argument(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UsageError(f"{text!r} must be key=value, for example path=README.md")
    try:
        return key, orjson.loads(value)
    except orjson.JSONDecodeError:
        # Bytes that are not UTF-8 are escaped as the tools expect them in a path.
        return key, value if _is_text(value) else to_wire(value)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _call_daemon(
    daemon: RunningDaemon, config: Config, tool: str, arguments: dict[str, Any], form: str
) -> tuple[str, bool] | None:
    path = "/mcp" if config.profile is None else f"/mcp/{config.profile}"
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    try:
        status, answer = daemon.request("POST", path, message, {"X-MCP-Agent-Form": form})
    except daemon_client.NotReached:
        return None
    if status == 200 and "result" in answer:
        return answer["result"]["content"][0]["text"], answer["result"]["isError"]
    # An unknown tool, and a profile that does not exist.
    raise UsageError(answer.get("error", {}).get("message", f"the daemon answered {status}"))


def _call_in_process(config: Config, tool: str, arguments: dict[str, Any], form: str) -> tuple[str, bool]:
    from mcp_agent.app import compose_daemon

    # What the call starts must not see the token.
    auth_tokens.from_environment()
    daemon = compose_daemon(config)
    request = Call(new_call_id(), Caller("command line", Access(), "in process"), tool, arguments)

    async def run() -> Outcome:
        try:
            return await daemon.dispatcher.call(request)
        finally:
            # No daemon keeps the sessions: whatever the call started ends with this command.
            for session in daemon.sessions.live:
                print(
                    f"mcp-agent: no daemon is running, so session {session.id} ends with this command; "
                    "start a daemon with: mcp-agent serve",
                    file=sys.stderr,
                )
            await daemon.stop()
            daemon.close()

    outcome = asyncio.run(run())
    if isinstance(outcome, Refusal):
        raise UsageError(outcome.message)
    is_error = isinstance(outcome, Failure)
    if isinstance(outcome.written, Compact):
        return outcome.written.encoded.decode(), is_error
    assert not isinstance(outcome, Page), "a page is short"
    if form == "text":
        return outcome.reply.render(), is_error
    return orjson.dumps(outcome.reply.as_object(), option=orjson.OPT_INDENT_2).decode(), is_error
