"""`mcp-agent completion SHELL` prints the completion script of a shell, made from the parser by shtab."""

from __future__ import annotations

import argparse
import sys


def completion(options: argparse.Namespace) -> int:
    import shtab

    from mcp_agent.cli.main import parser

    # As it is: a script may have characters that we escape for people.
    sys.stdout.flush()
    sys.stdout.buffer.write(shtab.complete(parser(), options.shell).encode() + b"\n")
    sys.stdout.buffer.flush()
    return 0
