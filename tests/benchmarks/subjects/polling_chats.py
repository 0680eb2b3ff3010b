"""Fifty chats of Open WebUI that are open: each looks at its processes once a second. A process of its own, because a
thread beside what measures would be measured with it."""

from __future__ import annotations

import sys
import time

from tests.benchmarks.http_client import HttpClient

CHATS = 50


def claims(chat: int) -> dict[str, str]:
    return {"x-user-id": f"user-{chat % 5}", "x-session-id": f"chat-{chat}"}


def look(base: str, token: str) -> None:
    chat, due = 0, time.monotonic()
    while True:
        # Open WebUI opens a connection for each request.
        client = HttpClient(
            f"{base}/open-terminal/execute", {"authorization": f"Bearer {token}", **claims(chat % CHATS)}
        )
        client.exchange(client.written(b"", "GET"))
        client.close()
        if chat == 0:
            print("looking", flush=True)
        chat += 1
        due += 1.0 / CHATS
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    look(*sys.argv[1:3])
