"""Follow a log in one session while tests run in another call, and see both as they happen.

    mcp-agent serve &
    python examples/watch_while_testing.py http://127.0.0.1:8765 "$(mcp-agent token show)"

Only the standard library: what it does, any program can do.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path
from typing import Any


class Host:
    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        request = urllib.request.Request(f"{self._url}/tools/{tool}", json.dumps(arguments).encode(), self._headers)
        with urllib.request.urlopen(request) as answer:
            result: dict[str, Any] = json.load(answer)
            return result

    def watch(self, session_id: str, watching: threading.Event) -> None:
        """Print what a session prints, from its first byte, until it ends."""
        path = f"{self._url}/events?session_id={session_id}&since=0"
        with urllib.request.urlopen(urllib.request.Request(path, headers=self._headers)) as stream:
            watching.set()
            for line in stream:
                if not line.startswith(b"data: "):
                    continue
                event = json.loads(line[6:])
                if event["type"] == "shell_session_output":
                    for printed in event["chunk"].splitlines():
                        print(f"log   {printed}", flush=True)
                elif event["type"] == "shell_session_exit":
                    print(f"log   ended with {event['exit_code']}", flush=True)
                    return


def main(url: str, token: str) -> int:
    host = Host(url, token)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "app.log")
        log.write_text("the application starts\n")
        tail = host.call("shell_start_session", command="tail -f app.log", cwd=folder)
        watching = threading.Event()
        watcher = threading.Thread(target=host.watch, args=(tail["session_id"], watching))
        watcher.start()
        watching.wait(10)

        tests = "echo a test begins; echo a request was served >> app.log; sleep 0.2; echo 1 passed"
        done = host.call("shell_exec", command=tests, cwd=folder)
        print(f"tests exit {done['exit_code']}: {' / '.join(done['stdout'].splitlines())}", flush=True)

        stopped = host.call("shell_stop_session", session_id=tail["session_id"])
        watcher.join(10)
        print(f"stopped: {stopped['stopped']}")
    return int(done["exit_code"])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
