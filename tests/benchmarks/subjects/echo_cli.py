"""`mcp-agent` with a trivial tool among its own. Takes the same command line."""

from __future__ import annotations

import sys

from mcp_agent.cli.main import run
from registry.catalog import Catalog, discover
from tests.benchmarks.subjects.echo import echo

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], Catalog([*discover().tools, echo])))
