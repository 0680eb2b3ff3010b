"""`python -m mcp_agent`, the same as the `mcp-agent` command."""

import sys

from mcp_agent.cli.entry import main

sys.exit(main())
