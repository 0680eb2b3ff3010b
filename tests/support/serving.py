"""`mcp-agent` with the tests' own tools beside the real ones. Takes the same command line."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    sys.path.insert(0, str(Path(__file__).parents[2]))
    import tests.support.probes
    from mcp_agent.cli.main import run
    from registry.catalog import Catalog, discover

    return run(sys.argv[1:], Catalog([*discover().tools, *discover(tests.support.probes).tools]))


if __name__ == "__main__":
    sys.exit(main())
