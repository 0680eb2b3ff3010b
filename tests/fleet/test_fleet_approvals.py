"""Calls through a gateway that ask: the box's owner or the gateway's, on the page of the gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.approvals.asking import decide, pending
from tests.support.fleet import Fleet, call, running_fleet
from tests.support.nats import nats_server

_ASKING = {"profiles": [{"id": "default", "categories": [{"id": "shell", "ask": True}]}]}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with nats_server(tmp_path) as server, running_fleet(tmp_path, server.url) as fleet:
        yield fleet


async def test_what_a_box_asks_is_shown_and_answered_at_its_gateway(fleet: Fleet) -> None:
    box = fleet.member("one").running
    gateway = fleet.gateway().running
    box.save(_ASKING)
    await box.logged("registry.reloaded")
    for decision in ("once", "deny"):
        running = asyncio.create_task(call(gateway, "shell_exec", command="echo there", box="one"))
        (request,) = await pending(gateway)
        assert (request["box"], request["command"]) == ("one", "echo there")
        assert (await decide(gateway, request["id"], decision, reason="not now"))["status"] == 200
        answer = await running
        if decision == "once":
            assert answer["stdout"] == "there\n"
        else:
            assert answer["error"]["message"] == "the owner did not approve this call: not now"
    audit = next(box.home.rglob("audit.jsonl")).read_text().splitlines()
    decided = [line for line in map(json.loads, audit) if line.get("event") == "approval_decided"]
    assert {line["by"] for line in decided} == {"gateway gw"}


async def test_a_call_of_a_client_of_the_box_itself_is_shown_at_the_gateway_and_answered_on_the_box(
    fleet: Fleet,
) -> None:
    box = fleet.member("one", "--port", "0").running
    gateway = fleet.gateway().running
    box.save(_ASKING)
    await box.logged("registry.reloaded")
    running = asyncio.create_task(call(box, "shell_exec", command="echo here"))
    (request,) = await pending(box)
    (shown,) = await pending(gateway)
    assert (shown["id"], shown["box"], shown["is_for_box"]) == (request["id"], "one", True)
    refused = await decide(gateway, request["id"], "once")
    assert refused["status"] >= 400
    assert "answer it on that box" in refused["error"]["message"]
    await decide(box, request["id"], "once")
    assert (await running)["stdout"] == "here\n"


async def test_the_profile_of_the_gateway_asks_before_a_box_is_called(fleet: Fleet) -> None:
    fleet.member("one")
    gateway = fleet.gateway().running
    rule = {"id": "push", "pattern": "git push", "reason": "others see it"}
    gateway.save({"profiles": [{"id": "default", "ask": {"commands": [rule]}}]})
    await gateway.logged("registry.reloaded")
    running = asyncio.create_task(call(gateway, "shell_exec", command="echo git push", box="one"))
    (request,) = await pending(gateway)
    assert request["reasons"][0]["rule"] == "push"
    await decide(gateway, request["id"], "once")
    assert (await running)["stdout"] == "git push\n"
    assert (await call(gateway, "shell_exec", command="echo free", box="one"))["stdout"] == "free\n"
