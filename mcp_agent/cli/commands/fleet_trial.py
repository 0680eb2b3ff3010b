"""`mcp-agent fleet try` and `mcp-agent fleet boxes`: a fleet to look at."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from argparse import Namespace
from typing import Any

import orjson

from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.own_command import own_command
from mcp_agent.cli.commands.serve_gateway import gateway_config
from mcp_agent.cli.declaration import CommandReply, argument, command
from mcp_agent.cli.tables import Cell, print_table
from mcp_agent.fleet.nats_address import FleetError
from mcp_agent.fleet.trial import BOXES, RunningTrial, Trial
from mcp_agent.process.printing import paint, write_painted
from registry.user_error import UserError
from tools.kit.results import quantity


@command(
    "fleet try",
    argument("--port", type=int, default=0, metavar="PORT", help="port of the gateway (default: a free one)"),
    settings=(),
    examples=("mcp-agent fleet try", "mcp-agent fleet try --port 8766"),
    streams=True,
)
def try_fleet(options: Namespace) -> int:
    """Start a NATS server, a gateway and two boxes on this machine, to see a fleet."""
    return asyncio.run(_try(options.port, as_json=options.json))


async def _try(port: int, *, as_json: bool) -> int:
    asked_to_end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, asked_to_end.set)
    ending = asyncio.create_task(asked_to_end.wait())
    trial = Trial(port)
    try:
        starting = asyncio.create_task(trial.start())
        await asyncio.wait({starting, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return 130
        _announce(starting.result(), as_json=as_json)
        failing = asyncio.create_task(trial.wait())
        await asyncio.wait({failing, ending}, return_when=asyncio.FIRST_COMPLETED)
        if failing.done():
            raise FleetError(failing.result())
        failing.cancel()
        await asyncio.gather(failing, return_exceptions=True)
    finally:
        ending.cancel()
        if sys.stdout.isatty():
            print("\nending the gateway, the boxes and the NATS server …", flush=True)
        await trial.stop()
    return 0


def _announce(fleet: RunningTrial, *, as_json: bool) -> None:
    if as_json or not sys.stdout.isatty():
        facts = {"event": "ready", "url": fleet.url, "token_file": fleet.token_file, "nats": fleet.nats, "boxes": BOXES}
        sys.stdout.buffer.write(orjson.dumps(facts) + b"\n")
        sys.stdout.buffer.flush()
        return
    command, token_file = own_command(), shlex.quote(fleet.token_file)
    curl = f'curl -s -H "Authorization: Bearer $(cat {token_file})" --json'
    read = f'{{"path": "hello.txt", "box": "{BOXES[1]}"}}'
    lines = [
        "",
        f"  {paint('A fleet on this machine: a NATS server, a gateway, and two boxes.', 'bold', sys.stdout)}",
        "",
        f"  URL    {fleet.url}/mcp",
        f"  key    {fleet.token}",
        f"  boxes  {', '.join(BOXES)}",
        "",
        "  In another terminal:",
        f"    {curl} '{{}}' {fleet.url}/tools/boxes",
        f"    {curl} '{read}' {fleet.url}/tools/fs_read",
        f"    {command} connect claude-code --url {fleet.url}/mcp --token-file {token_file}",
        "",
        f"  A fleet of several machines begins with: {command} fleet init",
        "  Ctrl-C ends all of it and leaves nothing behind.",
        "",
    ]
    write_painted("\n".join(lines) + "\n", sys.stdout)
    sys.stdout.flush()


class _NoGateway(UserError):
    exit_code = daemon_client.NoDaemon.exit_code


@command(
    "fleet boxes",
    argument("filter", nargs="?", metavar="FILTER", help="labels such as gpu=1, or a name with *"),
    examples=("mcp-agent fleet boxes", "mcp-agent fleet boxes gpu=1"),
)
def list_boxes(options: Namespace) -> CommandReply:
    """The boxes that the gateway of this user on this machine knows."""
    config = gateway_config(vars(options))
    gateway = daemon_client.find(config)
    if gateway is None:
        raise _NoGateway(
            f"no gateway of yours runs on this machine, with its state in {config.state_dir}; start one with "
            "`mcp-agent gateway`, or ask one elsewhere with the tool `boxes`"
        )
    rows: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        asked = {"offset": offset, **({"filter": options.filter} if options.filter else {})}
        answer = gateway.ask("POST", "/tools/boxes", asked)
        rows += answer["boxes"]
        offset = answer.get("next_offset")
    table: list[list[Cell | str]] = []
    for row in rows:
        labels = " ".join(f"{key}={value}" for key, value in row["labels"].items())
        state = Cell(row["away"], "yellow") if "away" in row else Cell("")
        facts = [f"load {row['load']}", quantity(row["sessions"], "session"), row["version"], row["directory"]]
        table.append([Cell(row["box"], "cyan"), labels, *facts, state])
    print_table(
        table, f"no box fits: {answer['hint']}" if options.filter and "hint" in answer else "the gateway knows no box"
    )
    return CommandReply(rows)
