"""Run an agent with the pruner: `JEEVES_PRUNER_ENABLED=1 python runner.py AGENT ARGUMENT…`.

The agent here is any program that reads the MCP servers it may start from the variable MCP_SERVERS, and ends with 0
if all went well. A runner that is told more by its agents has more to report: see `PrunerRun.failed`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from mcp_agent.programs.pruner.runner import PrunerRun

run = PrunerRun(os.environ, Path.cwd())
servers = {name: server.as_object() for name, server in run.mcp_servers.items()}
agent = subprocess.Popen(sys.argv[1:], env={**os.environ, "MCP_SERVERS": json.dumps(servers)})
if servers:
    run.started()
exit_code = agent.wait()
run.ended()
print(run.state)
sys.exit(exit_code)
