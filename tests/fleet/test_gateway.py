"""A gateway over the tools of several boxes: real processes on a real nats-server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest

from tests.support.daemon import Daemon
from tests.support.fleet import Fleet, call, running_fleet
from tests.support.nats import nats_server
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with nats_server(folder) as server, running_fleet(folder, server.url) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def gateway(fleet: Fleet) -> Daemon:
    """With two boxes, of which one has a label."""
    fleet.member("one", labels=("gpu=1", "zone=eu"))
    fleet.member("two", labels=("zone=eu",))
    return fleet.gateway().running


async def test_a_call_runs_on_the_box_that_is_named(gateway: Daemon) -> None:
    for box in ("one", "two"):
        result = await call(gateway, "shell_exec", command="basename $PWD", box=box)
        assert (result["exit_code"], result["stdout"]) == (0, f"{box}\n")


async def test_labels_that_fit_one_box_name_it(gateway: Daemon) -> None:
    assert (await call(gateway, "shell_exec", command="basename $PWD", box="gpu=1"))["stdout"] == "one\n"


async def test_a_call_without_a_box_lists_those_that_there_are(gateway: Daemon) -> None:
    error = (await call(gateway, "shell_exec", command="true"))["error"]
    assert error["code"] == "BOX_NEEDED"
    assert "one (gpu=1, zone=eu), two (zone=eu)" in error["hint"]


async def test_every_tool_is_listed_once_with_box(gateway: Daemon) -> None:
    tools = (await gateway.rpc("tools/list"))["result"]["tools"]
    names = [tool["name"] for tool in tools]
    assert len(names) == len(set(names))
    assert {"boxes", "box_use", "box_run", "fs_read", "shell_exec"} <= set(names)
    (shell,) = [tool for tool in tools if tool["name"] == "shell_exec"]
    assert "box" in shell["inputSchema"]["properties"]


async def test_ids_find_their_box(gateway: Daemon) -> None:
    started = await call(gateway, "shell_start_session", command="cat", box="two")
    session = started["session_id"]
    assert session.endswith("-two")
    read = await call(gateway, "shell_send_input", session_id=session, input="hello\n", wait_ms=10_000, until="hello")
    assert read["matched"] is True
    stopped = await call(gateway, "shell_stop_session", session_id=session)
    assert "error" not in stopped
    for content in ("old", "new"):
        written = await call(gateway, "fs_write", path="undone.txt", content=content, box="two")
    assert written["undo_id"].endswith("-two")
    restored = await call(
        gateway, "fs_move", **{"from": f"undo://{written['undo_id']}", "to": "undone.txt", "overwrite": True}
    )
    assert "error" not in restored
    assert (await call(gateway, "fs_read", path="undone.txt", box="two"))["content"] == "old"


async def test_a_pruned_text_is_brought_back_from_its_box(gateway: Daemon) -> None:
    lines = [f"line {number} is about {'apples' if number == 30 else 'pears'}" for number in range(1, 101)]
    await call(gateway, "fs_write", path="fruit.txt", content="\n".join(lines), box="two")
    read = await call(gateway, "read", path="fruit.txt", context_focus_question="where are the apples?", box="two")
    found = re.search(r"⟦PRUNED: lines (\d+)-(\d+)⟧", read["content"])
    assert found is not None
    prune_id = read["pruning"]["prune_id"]
    assert prune_id.endswith("-two")
    ranges = [{"start_line": int(found[1]), "end_line": int(found[2])}]
    brought = await call(gateway, "recover_text", prune_id=prune_id, ranges=ranges, include_line_numbers=False)
    assert brought["raw_text"].splitlines() == lines[int(found[1]) - 1 : int(found[2])]


async def test_an_id_and_a_box_that_do_not_fit_together_are_refused(gateway: Daemon) -> None:
    error = (await call(gateway, "shell_stop_session", session_id="s0123abcd-two", box="one"))["error"]
    assert error["code"] == "INVALID_PARAMS"
    assert "leave box out" in error["message"]


async def test_a_page_of_a_short_result_comes_from_the_box_that_kept_it(gateway: Daemon) -> None:
    async with gateway.http() as client:

        async def ask(**arguments: Any) -> dict[str, Any]:
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
            params = {"name": "shell_exec", "arguments": arguments}
            answer = await client.post("/mcp/compact", json={**message, "params": params})
            found: dict[str, Any] = orjson.loads(answer.json()["result"]["content"][0]["text"])
            return found

        first = await ask(command="seq 100000", box="two")
        assert first["artifactRef"].endswith("-two")
        assert first["nextCursor"].endswith(".two")
        second = await ask(cursor=first["nextCursor"])
        assert "error" not in second
    whole = await call(gateway, "artifact_read", ref=first["artifactRef"])
    assert "error" not in whole


async def test_a_tool_that_may_be_instant_reads_small_and_large_files_and_with_a_question(gateway: Daemon) -> None:
    await call(gateway, "shell_exec", command="echo small > small.txt; seq 300000 > large.txt", box="one")
    small = await call(gateway, "fs_read", path="small.txt", box="one")
    large = await call(gateway, "fs_read", path="large.txt", max_bytes=900_000, box="one")
    asked = await call(gateway, "fs_read", path="small.txt", box="one", context_focus_question="What is small?")
    missing = await call(gateway, "fs_read", path="nowhere.txt", box="one")
    assert small["content"] == "small\n"
    assert len(large["content"]) > 500_000
    assert asked["content"] == "small\n"
    assert "pruning" in asked
    assert missing["error"]["code"] == "NOT_FOUND"


async def test_an_artifact_of_a_box_is_downloaded_from_the_gateway_by_its_owner(gateway: Daemon) -> None:
    whole = "".join(f"{number}\n" for number in range(1, 400_001))
    result = await call(gateway, "shell_exec", command="seq 400000", max_output_bytes=10_000, box="two")
    path = f"/artifacts/{result['artifactRef'].removeprefix('ax://')}"
    assert path.endswith("-two")
    async with gateway.http() as client:
        found = await client.get(path)
        assert (found.status_code, found.headers["content-type"]) == (200, "text/plain; charset=utf-8")
        assert whole in found.text
        head = await client.head(path)
        assert (head.headers["content-length"], head.content) == (str(len(found.content)), b"")
        for gone in (path.replace("/shell", "/other"), path.replace("-two", "-one"), path.replace("-two", "-three")):
            assert (await client.get(gone)).status_code == 404
    created = await asyncio.to_thread(gateway.cli, "token", "create", "guest")
    async with gateway.http(Authorization=f"Bearer {created.stdout.splitlines()[1]}") as guest:

        async def status() -> int:
            return (await guest.get(path)).status_code

        # Until the daemon has read of the new token, nobody knows it.
        assert await eventually(status, lambda found: found != 401) == 404


async def test_box_use_sets_the_default_of_the_conversation_or_the_token(gateway: Daemon) -> None:
    async with gateway.http(**{"x-openwebui-chat-id": "first"}) as first, gateway.http() as other:

        async def folder(client: httpx2.AsyncClient) -> str:
            answer = (await client.post("/tools/shell_exec", json={"command": "basename $PWD"})).json()
            return str(answer.get("stdout") or answer["error"]["code"])

        used = (await first.post("/tools/box_use", json={"box": "two"})).json()
        assert used == {"box": "two", "of": "conversation"}
        assert [await folder(first), await folder(other)] == ["two\n", "BOX_NEEDED"]
        assert (await other.post("/tools/box_use", json={"box": "gpu=1"})).json() == {"box": "one", "of": "token"}
        assert [await folder(first), await folder(other)] == ["two\n", "one\n"]
        for client in (first, other):
            await client.post("/tools/box_use", json={"box": ""})
        assert [await folder(first), await folder(other)] == ["BOX_NEEDED", "BOX_NEEDED"]


async def test_boxes_are_listed_filtered_and_grouped(gateway: Daemon) -> None:
    every = await call(gateway, "boxes")
    assert [row["box"] for row in every["boxes"]] == ["one", "two"]
    assert every["boxes"][0]["labels"] == {"gpu": "1", "zone": "eu"}
    assert [row["box"] for row in (await call(gateway, "boxes", filter="gpu=1"))["boxes"]] == ["one"]
    assert [row["box"] for row in (await call(gateway, "boxes", filter="t*"))["boxes"]] == ["two"]
    assert (await call(gateway, "boxes", group_by="gpu"))["boxes"] == [
        {"group": "", "boxes": 1, "examples": ["two"]},
        {"group": "1", "boxes": 1, "examples": ["one"]},
    ]


async def test_a_filter_takes_several_names(gateway: Daemon) -> None:
    for names, expected in (("one, two", ["one", "two"]), ("o*,three", ["one"])):
        assert [row["box"] for row in (await call(gateway, "boxes", filter=names))["boxes"]] == expected


async def test_a_filter_that_fits_no_box_is_answered_with_what_there_is(gateway: Daemon) -> None:
    for filter_, hint in (
        ("gpuu=1", "no box has a label gpuu; there are gpu, zone"),
        ("gpu=7", "there are one (gpu=1, zone=eu), two (zone=eu)"),
        ("three", "there are one (gpu=1, zone=eu), two (zone=eu)"),
    ):
        assert await call(gateway, "boxes", filter=filter_) == {"boxes": [], "total": 0, "hint": hint}
        refused = await call(gateway, "box_run", command="true", filter=filter_)
        assert refused["error"] == {"code": "NOT_FOUND", "message": f"no box fits '{filter_}'", "hint": hint}


async def test_labels_that_no_box_can_have_at_once_choose_none(gateway: Daemon) -> None:
    message = "zone cannot be both us and eu: a box has all of the labels"
    for tool, asked in (
        ("box_use", {"box": "zone=us,zone=eu,gpu=1"}),
        ("fs_grep", {"pattern": "x", "box": "zone=us,zone=eu,gpu=1"}),
        ("boxes", {"filter": "zone=us,zone=eu"}),
        ("box_run", {"command": "true", "filter": "zone=us,zone=eu"}),
    ):
        refused = (await call(gateway, tool, **asked))["error"]
        assert (refused["code"], refused["message"]) == ("INVALID_PARAMS", message)


async def test_an_empty_filter_runs_nothing_and_an_empty_box_is_none(gateway: Daemon) -> None:
    refused = await call(gateway, "box_run", command="touch ran-everywhere", filter="")
    assert refused["error"]["message"] == "filter must not be empty"
    assert (await call(gateway, "shell_exec", command="true", box=""))["error"]["code"] == "BOX_NEEDED"


async def test_the_text_of_boxes_and_box_run_is_right_for_one_and_for_many(gateway: Daemon) -> None:
    async with gateway.http(**{"X-MCP-Agent-Form": "text"}) as http:

        async def text(tool: str, **arguments: Any) -> list[str]:
            return (await http.post(f"/tools/{tool}", json=arguments)).text.splitlines()

        assert (await text("boxes", filter="one"))[0] == "1 box"
        assert await text("boxes", group_by="gpu") == ["2 boxes", "(none): 1 box: two", "1: 1 box: one"]
        assert await text("box_run", command="echo hi", filter="one") == ["1 box, 0 failed", "== one: exit 0", "hi"]
        late = await text("box_run", command="sleep 60", filter="one", timeout_seconds=1)
        assert late == ["1 box, 1 failed", "== one: exit 124, timed out"]
        much = (await text("box_run", command="seq 10000", filter="one"))[1]
    assert much.startswith("== one: exit 0; all of it in ax://shell/")


async def test_what_a_short_answer_of_box_run_leaves_out_is_kept(gateway: Daemon) -> None:
    async with gateway.http(Accept="application/json, text/event-stream") as http:
        params = {"name": "box_run", "arguments": {"command": "echo hello", "filter": "*"}}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = orjson.loads((await http.post("/mcp/compact", json=asked)).json()["result"]["content"][0]["text"])
    assert answer["items"] == [{"id": "one", "label": "exit 0"}, {"id": "two", "label": "exit 0"}]
    kept = await call(gateway, "artifact_read", ref=answer["artifactRef"])
    assert "hello" in kept["content"]


@pytest.mark.parametrize(
    ("profile", "advice"), [("default", "pass box, or choose one with box_use"), ("lean", "pass box")]
)
async def test_a_call_without_a_box_is_advised_to_use_what_the_caller_has(
    gateway: Daemon, profile: str, advice: str
) -> None:
    async with gateway.http(Accept="application/json, text/event-stream") as http:
        params = {"name": "fs_search", "arguments": {"pattern": "*"}}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = (await http.post(f"/mcp/{profile}", json=asked)).json()["result"]["structuredContent"]
    assert answer["error"]["hint"] == f"{advice}: one (gpu=1, zone=eu), two (zone=eu)"


async def test_box_run_gives_one_row_for_each_box(gateway: Daemon) -> None:
    ran = await call(gateway, "box_run", command="basename $PWD; test $(basename $PWD) = one", filter="zone=eu")
    assert ran == {
        "rows": [
            {"box": "one", "exit_code": 0, "output": "one"},
            {"box": "two", "exit_code": 1, "output": "two"},
        ],
        "failed": 1,
    }
    assert (await call(gateway, "box_run", command="true", filter="gpu=9"))["error"]["code"] == "NOT_FOUND"


async def test_a_call_that_fits_no_message_is_too_large_and_does_not_run(gateway: Daemon, fleet: Fleet) -> None:
    """The server of these tests takes 1 MiB, as NATS does by default."""
    refused = await call(gateway, "fs_write", path="too-large.txt", content="0123456789" * 250_000, box="one")
    assert (refused["error"]["code"], "it has not run" in refused["error"]["message"]) == ("TOO_LARGE", True)
    assert "max_payload" in refused["error"]["hint"]
    assert not (fleet.folder / "one" / "too-large.txt").exists()
    assert (await call(gateway, "shell_exec", command="true", box="one"))["exit_code"] == 0


async def test_what_is_almost_as_large_as_a_message_goes_through(gateway: Daemon, fleet: Fleet) -> None:
    written = await call(gateway, "fs_write", path="large.txt", content="x" * 1_000_000, box="one")
    assert written["bytes_written"] == 1_000_000
    (fleet.folder / "one" / "long.txt").write_text("x" * 480_000)
    params = {"name": "fs_read", "arguments": {"path": "long.txt", "max_bytes": 480_000, "box": "one"}}
    result = (await gateway.rpc("tools/call", **params))["result"]
    assert result["structuredContent"]["content"] == "x" * 480_000
    assert orjson.loads(result["content"][0]["text"]) == result["structuredContent"]


async def test_progress_of_a_box_reaches_the_client(gateway: Daemon) -> None:
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "shell_exec",
            "arguments": {"command": "for i in 1 2 3 4; do echo $i; sleep 0.6; done", "box": "one"},
            "_meta": {"progressToken": "p"},
        },
    }
    async with gateway.http(accept="application/json, text/event-stream") as client:
        answer = await client.post("/mcp", json=message)
    assert '"notifications/progress"' in answer.text
    assert '"exit_code":0' in answer.text


async def test_a_client_that_leaves_cancels_its_call_on_the_box(gateway: Daemon, fleet: Fleet) -> None:
    pid_file = fleet.folder / "one" / "pid"
    async with gateway.http() as client:
        body = {"command": "echo $$ > pid; exec sleep 600", "box": "one"}
        asked = asyncio.create_task(client.post("/tools/shell_exec", json=body))
        pid = (await eventually(lambda: pid_file.read_text() if pid_file.exists() else "")).strip()
        asked.cancel()
        await asyncio.wait([asked])
    await eventually(lambda: not Path(f"/proc/{pid}").exists())


async def test_the_box_and_the_gateway_each_write_an_audit_line_under_one_id(gateway: Daemon, fleet: Fleet) -> None:
    await call(gateway, "fs_list", path=".", box="one")

    def lines(program: str) -> list[dict[str, Any]]:
        files = (fleet.folder / program / "state" / "audit").iterdir()
        every = [orjson.loads(line) for file in files for line in file.read_bytes().splitlines()]
        return [line for line in every if line.get("tool") == "fs_list"]

    (line, *_) = await eventually(lambda: lines("one"))
    assert (line["client"], line["gateway"], line["transport"]) == ("fleet/owner", "gw", "openapi")
    (own, *_) = await eventually(lambda: lines("gw"))
    assert (own["client"], own["box"], own["req"]) == ("owner", "one", line["req"])


async def test_a_gateway_answers_as_the_box_does_and_never_with_another_box(gateway: Daemon, fleet: Fleet) -> None:
    direct = fleet.member("three", "--port", "0").running
    await eventually(lambda: call(gateway, "boxes"), lambda found: found["total"] == 3)
    for path, headers in (
        ("/rpc", {}),
        ("/mcp", {"accept": "application/json"}),
        ("/mcp", {"accept": "application/json", "x-mcp-agent-form": "text"}),
        ("/mcp/compact", {"accept": "application/json"}),
    ):
        for arguments in ({"path": "."}, {"path": "not there"}, {"path": 5, "pattern": []}):
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
            answers = []
            for daemon, more in ((direct, {}), (gateway, {"box": "three"})):
                params = {"name": "fs_list", "arguments": {**arguments, **more}}
                async with daemon.http(**headers) as client:
                    answers.append((await client.post(path, json={**message, "params": params})).json())
            assert answers[0] == answers[1]
    await call(gateway, "box_use", box="three")
    fleet.programs.pop().stop()
    await eventually(lambda: call(gateway, "boxes"), lambda found: found["total"] == 2)
    gone = await call(gateway, "fs_list", path=".")
    assert gone["error"]["message"] == "three, your default box, has left the fleet"
    await call(gateway, "box_use", box="")


async def test_a_model_is_told_what_box_means(gateway: Daemon) -> None:
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    told = (await gateway.rpc("initialize", **params))["result"]["instructions"]
    assert told.startswith("These tools act on the boxes of a fleet: `box` is the name of one")
    assert str(gateway.home) not in told


async def test_resources_are_read_from_the_box_in_their_name(gateway: Daemon) -> None:
    session = (await call(gateway, "shell_start_session", command="echo hello; exec cat", box="two"))["session_id"]
    await call(gateway, "shell_send_input", session_id=session, input="", wait_ms=10_000, until="hello")
    read = await gateway.rpc("resources/read", uri=f"session://{session}")
    assert "hello" in read["result"]["contents"][0]["text"]
    await call(gateway, "shell_stop_session", session_id=session)
    for content in ("old", "new"):
        written = await call(gateway, "fs_write", path="resource.txt", content=content, box="one")
    read = await gateway.rpc("resources/read", uri=f"undo://{written['undo_id']}")
    assert read["result"]["contents"][0]["text"] == "old"
    missing = await gateway.rpc("resources/read", uri="undo://0123-one")
    assert "Resource not found" in missing["error"]["message"]
