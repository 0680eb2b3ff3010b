"""These take minutes and 2 GB of other people's programs, so they are no part of `make test`."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("MCP_AGENT_TEST_CLIENTS") else ["test_*.py"]
