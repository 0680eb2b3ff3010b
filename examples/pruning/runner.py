"""Run an agent with the pruner: `JEEVES_PRUNER_ENABLED=1 python runner.py AGENT ARGUMENT…`.

The agent here is any program that reads the MCP servers it may start from the variable MCP_SERVERS, and ends with 0
if all went well. `mcp_servers` has the shape that the Claude Agent SDK takes (`server.as_object()`);
`codex_overrides(mcp_servers)` are the `--config` arguments for `codex exec`.

PrunerRun reads these variables of the runner:
    JEEVES_PRUNER_ENABLED    1, true, yes or on gives agents the pruner; off by default
    JEEVES_PRUNER_URL        what the pruner gets as PRUNER_URL (http://localhost:8000/prune); empty turns pruning off
    JEEVES_MCP_PRUNER_PATH   the mcp-pruner to start; else beside the running interpreter, else on the PATH
    PRUNER_TIMEOUT_MS        checked, because the pruner may inherit it

A runner reports what its provider says. A failure of the pruner never fails the run. Events are JSON lines on stderr:
    (not enabled, or set wrongly)  run:mcp_pruner_disabled   mcp_pruner.config_invalid, mcp_pruner.disabled
    (enabled)                      run:mcp_pruner_starting
    started()                      run:mcp_pruner_running    mcp_pruner.ready
    failed_to_start(message)       run:mcp_pruner_disabled   mcp_pruner.spawn_error, .start_failed, .disabled
    failed(reason, ...)            run:mcp_pruner_degraded   mcp_pruner.degraded
    ended()                        run:shutdown              mcp_pruner.not_running, or .shutdown_after_degraded
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
