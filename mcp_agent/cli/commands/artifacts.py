"""`mcp-agent artifacts list|show|remove`: the artifacts of all callers, for the owner of the machine."""

from __future__ import annotations

import io
import shutil
import sys
from argparse import Namespace

from mcp_agent.app import artifacts_of
from mcp_agent.cli.declaration import CommandReply, argument, command
from mcp_agent.cli.tables import Cell, Row, moment, print_table
from mcp_agent.config import load
from mcp_agent.storage.audit_log import note_command
from registry.user_error import UserError
from tools.files import disk

_REF = "ax://<domain>/<id>"


@command("artifacts list", examples=("mcp-agent artifacts list", "mcp-agent artifacts list --json"))
def list_artifacts(options: Namespace) -> CommandReply:
    """All artifacts, the newest first."""
    artifacts = list(artifacts_of(load(vars(options))).newest())
    rows: list[Row] = [
        [
            Cell(each.reference, "cyan"),
            Cell(moment(each.created), "dim"),
            Cell(f"{each.size} bytes", to_right=True),
            each.media_type,
            each.owner,
        ]
        for each in artifacts
    ]
    print_table(rows, "no artifacts")
    return CommandReply(
        [
            {
                "ref": each.reference,
                "created": each.created,
                "bytes": each.size,
                "media_type": each.media_type,
                "owner": each.owner,
            }
            for each in artifacts
        ]
    )


@command(
    "artifacts show",
    argument("ref", help=_REF),
    examples=("mcp-agent artifacts show ax://shell/7f3c2a", "mcp-agent artifacts show ax://shell/7f3c2a > output.txt"),
)
def show(options: Namespace) -> CommandReply:
    """Print an artifact."""
    store = artifacts_of(load(vars(options)))
    artifact = store.find(options.ref)
    if artifact is None:
        raise UserError(f"there is no artifact {options.ref}")
    with open(disk.open_regular(store.path(artifact)), "rb") as file:
        if options.json:
            text = file.read().decode("utf-8", "backslashreplace")
            return CommandReply({"ref": options.ref, "media_type": artifact.media_type, "text": text})
        if sys.stdout.isatty():
            # As text: on a terminal it must be readable, and must not control the terminal.
            shutil.copyfileobj(io.TextIOWrapper(file, "utf-8", "backslashreplace", newline=""), sys.stdout)
        else:
            shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.flush()
    return CommandReply(None)


@command(
    "artifacts remove",
    argument("refs", nargs="+", metavar="REF", help=_REF),
    examples=(
        "mcp-agent artifacts remove ax://shell/7f3c2a",
        "mcp-agent artifacts remove ax://shell/7f3c2a ax://cli/91d0b4",
    ),
)
def remove(options: Namespace) -> CommandReply:
    """Remove artifacts."""
    config = load(vars(options))
    store = artifacts_of(config)
    removed: list[str] = []
    for reference in options.refs:
        artifact = store.find(reference)
        if artifact is None:
            print(f"mcp-agent: there is no artifact {reference}", file=sys.stderr)
        else:
            store.remove(artifact)
            note_command(config.audit_dir, "artifact_removed", ref=reference, owner=artifact.owner)
            removed.append(reference)
            print(f"Removed {reference}.")
    return CommandReply({"removed": removed}, int(removed != options.refs))
