"""`mcp-agent artifacts list|show|rm`: the artifacts of all callers, for the owner of the machine."""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from datetime import datetime

from mcp_agent.app import artifacts_of
from mcp_agent.cli.tables import Cell, Row, print_table
from mcp_agent.config import load
from mcp_agent.process.printing import print_json
from registry.user_error import UserError
from tools.files import disk


def list_artifacts(options: argparse.Namespace) -> int:
    artifacts = list(artifacts_of(load(vars(options))).newest())
    if options.json:
        print_json(
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
        return 0
    rows: list[Row] = [
        [
            Cell(each.reference, "cyan"),
            Cell(datetime.fromtimestamp(each.created).strftime("%Y-%m-%d %H:%M:%S"), "dim"),
            Cell(f"{each.size} bytes", to_right=True),
            each.media_type,
            each.owner,
        ]
        for each in artifacts
    ]
    print_table(rows, "no artifacts")
    return 0


def show(options: argparse.Namespace) -> int:
    store = artifacts_of(load(vars(options)))
    artifact = store.find(options.ref)
    if artifact is None:
        raise UserError(f"there is no artifact {options.ref}")
    with open(disk.open_regular(store.path(artifact)), "rb") as file:
        if sys.stdout.isatty():
            # As text: on a terminal it must be readable, and must not control the terminal.
            shutil.copyfileobj(io.TextIOWrapper(file, "utf-8", "backslashreplace", newline=""), sys.stdout)
        else:
            shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.flush()
    return 0


def remove(options: argparse.Namespace) -> int:
    store = artifacts_of(load(vars(options)))
    missing = 0
    for reference in options.refs:
        artifact = store.find(reference)
        if artifact is None:
            print(f"mcp-agent: there is no artifact {reference}", file=sys.stderr)
            missing = 1
        else:
            store.remove(artifact)
            print(f"{reference} is removed")
    return missing
