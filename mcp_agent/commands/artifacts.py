"""`mcp-agent artifacts list|show|rm`: the artifacts of all callers, for the owner of the machine."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime

from mcp_agent.app import artifacts_of
from mcp_agent.config import load
from registry.user_error import UserError


def list_artifacts(options: argparse.Namespace) -> int:
    for artifact in artifacts_of(load(vars(options))).newest():
        at = datetime.fromtimestamp(artifact.created).strftime("%Y-%m-%d %H:%M:%S")
        print(f"{artifact.reference}  {at}  {artifact.size:>11}  {artifact.media_type}  {artifact.owner}")
    return 0


def show(options: argparse.Namespace) -> int:
    store = artifacts_of(load(vars(options)))
    artifact = store.find(options.ref)
    if artifact is None:
        raise UserError(f"there is no artifact {options.ref}")
    with open(store.path(artifact), "rb") as file:
        while data := file.read(1 << 20):
            sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
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
