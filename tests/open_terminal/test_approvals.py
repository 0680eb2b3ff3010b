"""What a person does in Open WebUI asks the owner as the tool does that it stands for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.approvals.asking import decide, pending
from tests.support.daemon import Daemon, running
from tests.support.open_terminal import terminal
from tests.support.websocket import shell_of


def _asking(home: Path, **profile: Any) -> Iterator[Daemon]:
    (home / "tools.json").write_text(json.dumps({"profiles": [{"id": "default", **profile}]}))
    with running(home, "--approval-hold-s", "60", extra={"SHELL": "/bin/sh", "PS1": "$ "}) as daemon:
        yield daemon


@pytest.fixture
def writes_ask(home: Path) -> Iterator[Daemon]:
    yield from _asking(home, effects={"write": "ask"})


@pytest.fixture
def shell_asks(home: Path) -> Iterator[Daemon]:
    rule = {"id": "push", "pattern": "git push", "reason": "others see it"}
    yield from _asking(home, categories=[{"id": "shell", "ask": True}], ask={"commands": [rule]})


@pytest.mark.parametrize("decision", ["once", "deny"])
async def test_a_deletion_in_the_panel_waits(writes_ask: Daemon, decision: str) -> None:
    file = writes_ask.home / "x.txt"
    file.write_text("x")
    async with terminal(writes_ask) as page:
        deleting = asyncio.create_task(page.delete("/files/delete", params={"path": str(file)}))
        (request,) = await pending(writes_ask)
        assert (request["tool"], file.exists()) == ("fs_delete", True)
        await decide(writes_ask, request["id"], decision)
        answer = await deleting
    assert (answer.status_code == 200, file.exists()) == ((True, False) if decision == "once" else (False, True))


async def test_a_terminal_asks_when_it_opens_and_its_lines_by_the_rules_alone(shell_asks: Daemon) -> None:
    async def owner(expected: str, decision: str) -> None:
        (request,) = await pending(shell_asks)
        assert request["command"].strip() == expected
        await decide(shell_asks, request["id"], decision)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(owner("/bin/sh", "once"))
        async with shell_of(shell_asks) as opened:
            await opened.sees("$ ")
            await opened.type("echo free-$((1 + 1))\r")
            await opened.sees("free-2")
            denied = tasks.create_task(owner("git push", "deny"))
            await opened.type("git push\r")
            await opened.sees("the owner did not approve this call")
            await denied
