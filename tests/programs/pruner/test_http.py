"""`mcp-pruner http`: prune_text, recover_text and health over plain JSON-RPC, on loopback without a token."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_agent import __version__
from tests.support.pruner_http import OPTIONS, PRUNER, Pruner, clean, pruner
from tests.support.waiting import PATIENCE_S, eventually_sync

CODE = "\n".join(
    f"def step_{n}(pool):\n    value = pool.take({n})\n    return value + {n}\n" for n in range(100)
).rstrip()

EXAMPLES = r"""
curl -sS \
  -H 'Content-Type: application/json' \
  -d '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}' \
  http://127.0.0.1:8006/rpc | jq
---
curl -sS \
  -H 'Content-Type: application/json' \
  -d '{
    "jsonrpc":"2.0",
    "id":2,
    "method":"tools/call",
    "params":{
      "name":"prune_text",
      "arguments":{
        "text":"L1\nL2\nL3\nL4",
        "goal_hint":"garder L1",
        "source_type":"docs",
        "options":{
          "max_prune_ratio":0.75,
          "min_keep_lines":1,
          "timeout_ms":1500,
          "annotate_lines":true,
          "include_markers":true
        }
      }
    }
  }' \
  http://127.0.0.1:8006/rpc | jq -r '.result.content[0].text' | jq
---
curl -sS \
  -H 'Content-Type: application/json' \
  -d '{
    "jsonrpc":"2.0",
    "id":3,
    "method":"tools/call",
    "params":{
      "name":"recover_text",
      "arguments":{
        "prune_id":"prn_...",
        "ranges":[{"start_line":1,"end_line":50}],
        "include_line_numbers":true
      }
    }
  }' \
  http://127.0.0.1:8006/rpc | jq -r '.result.content[0].text' | jq
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pruner]:
    with pruner(tmp_path_factory.mktemp("home")) as started:
        yield started


def _shell(script: str, served: Pruner) -> Any:
    here = script.replace("http://127.0.0.1:8006", served.url)
    done = subprocess.run(["bash", "-c", here], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return json.loads(done.stdout)


def test_the_examples_of_the_specification_run_as_they_stand(served: Pruner) -> None:
    listing, pruning, recovering = EXAMPLES.split("---\n")
    assert [tool["name"] for tool in _shell(listing, served)["result"]["tools"]] == [
        "health",
        "prune_text",
        "recover_text",
    ]
    pruned = _shell(pruning, served)
    assert (pruned["stats"]["original_lines"], pruned["warnings"]) == (4, [])
    marker = f"⟦PRUNÉ: prune_id={pruned['prune_id']} lignes 2-4 (3) raison=accessoire⟧"
    assert pruned["pruned_text"] == f"1│ L1\n{marker}"
    assert pruned["stats"]["pruned_ratio"] == 0.75
    recovered = _shell(recovering.replace("prn_...", pruned["prune_id"]), served)
    assert recovered == {
        "raw_text": "1│ L1\n2│ L2\n3│ L3\n4│ L4",
        "metadata": {
            "prune_id": pruned["prune_id"],
            "ranges": [{"start_line": 1, "end_line": 4}],
            "line_numbering": "original",
        },
    }


def test_a_marker_stands_for_each_gap_and_brings_its_lines_back(served: Pruner) -> None:
    pruned = served.call("prune_text", text=CODE, goal_hint="step_42", source_type="code", options=OPTIONS)
    lines, shown = CODE.split("\n"), pruned["pruned_text"].split("\n")
    assert pruned["annotations"]
    for annotation in pruned["annotations"]:
        first, last = annotation["original_start_line"], annotation["original_end_line"]
        span = f"lignes {first}-{last} ({annotation['pruned_line_count']})"
        assert annotation["marker"] == f"⟦PRUNÉ: prune_id={pruned['prune_id']} {span} raison={annotation['reason']}⟧"
        assert annotation["kind"] == "pruned_block"
        assert shown.count(annotation["marker"]) == 1
        wanted = [{"start_line": first, "end_line": last}]
        back = served.call("recover_range", prune_id=pruned["prune_id"], ranges=wanted, include_line_numbers=False)
        assert back["raw_text"].split("\n") == lines[first - 1 : last]
    assert "def step_42(pool):" in shown
    assert pruned["stats"]["kept_lines"] + pruned["stats"]["pruned_lines"] == pruned["stats"]["original_lines"] == 399
    assert pruned["stats"]["pruned_ratio"] <= 0.55
    assert pruned["stats"]["tokens_est_after"] < pruned["stats"]["tokens_est_before"]


def test_kept_lines_are_numbered_and_markers_are_not(served: Pruner) -> None:
    options = {**OPTIONS, "annotate_lines": True}
    pruned = served.call("prune_text", text=CODE, goal_hint="step_42", source_type="code", options=options)
    lines = CODE.split("\n")
    for line in pruned["pruned_text"].split("\n"):
        if not line.startswith("⟦PRUNÉ: "):
            number, _, text = line.partition("│ ")
            assert text == lines[int(number) - 1]
    bare = served.call(
        "prune_text",
        text=CODE,
        goal_hint="step_42",
        source_type="code",
        options={**OPTIONS, "include_markers": False},
    )
    assert bare["annotations"] == pruned["annotations"]
    assert "⟦" not in bare["pruned_text"]


def test_protected_blocks_stay_whole(served: Pruner) -> None:
    block = ["⟦NO_PRUNE_BEGIN⟧", *(f"keep {n}" for n in range(30)), "⟦NO_PRUNE_END⟧"]
    text = "\n".join([*CODE.split("\n"), *block, *CODE.split("\n")])
    options = {**OPTIONS, "max_prune_ratio": 0.9, "min_keep_lines": 1}
    pruned = served.call("prune_text", text=text, goal_hint="step_3", source_type="code", options=options)
    assert "\n".join(block) in pruned["pruned_text"]


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ({"options": {**OPTIONS, "min_keep_lines": 10_000}}, "constraints_unmet"),
        ({"text": "word " * 20_001}, "input_too_large"),
        ({"options": {**OPTIONS, "timeout_ms": 1}}, "timeout"),
        ({"text": "L1\nL2\nL3", "options": {**OPTIONS, "min_keep_lines": 1, "timeout_ms": 1}}, "timeout"),
    ],
)
def test_what_cannot_be_pruned_comes_back_whole_with_a_warning(
    tmp_path: Path, change: dict[str, Any], warning: str
) -> None:
    with pruner(tmp_path, MCP_PRUNER_MAX_INPUT_CHARS="100000" if warning == "input_too_large" else "2000000") as served:
        arguments = {"text": CODE, "goal_hint": "step_3", "source_type": "code", "options": OPTIONS, **change}
        pruned = served.call("prune_text", **arguments)
        assert pruned["pruned_text"] == arguments["text"]
        assert (pruned["annotations"], pruned["warnings"], pruned["stats"]["used_fallback"]) == ([], [warning], True)
        wanted = {"prune_id": pruned["prune_id"], "ranges": [{"start_line": 1, "end_line": 1}]}
        back = served.call("recover_text", **wanted, include_line_numbers=False)
        assert back["raw_text"] == arguments["text"].split("\n")[0]


def test_a_text_over_every_limit_comes_back_whole(served: Pruner) -> None:
    """A client puts the answer in the place of its text, so it is never cut."""
    text = "a line of text\n" * 400_000
    pruned = served.call("prune_text", text=text, goal_hint="x", source_type="docs", options=OPTIONS)
    assert pruned["pruned_text"] == text
    assert (pruned["warnings"], "artifactRef" in pruned) == (["input_too_large"], False)


def test_pruned_lines_outlive_a_restart_and_no_longer_than_they_should(tmp_path: Path) -> None:
    with pruner(tmp_path) as first:
        pruned = first.call("prune_text", text=CODE, goal_hint="step_42", source_type="code", options=OPTIONS)
    wanted = {
        "prune_id": pruned["prune_id"],
        "ranges": [{"start_line": 2, "end_line": 2}],
        "include_line_numbers": True,
    }
    with pruner(tmp_path) as second:
        assert second.call("recover_text", **wanted)["raw_text"] == "2│     value = pool.take(0)"
    with pruner(tmp_path, MCP_PRUNER_PRUNE_ID_TTL_S="1") as third:
        answer = eventually_sync(lambda: third.call("recover_text", **wanted), lambda seen: "raw_text" not in seen)
        assert answer["code"] == -32004


def test_an_unknown_id_and_a_bad_range_have_numbers_of_their_own(served: Pruner) -> None:
    def recovered(prune_id: str, start: Any, end: Any) -> dict[str, Any]:
        ranges = [{"start_line": start, "end_line": end}]
        return served.call("recover_text", prune_id=prune_id, ranges=ranges, include_line_numbers=True)

    unknown = recovered("prn_nothing", 1, 2)
    assert (unknown["code"], unknown["message"]) == (-32004, "prune_id_not_found")
    assert (unknown["data"]["code"], unknown["data"]["prune_id"]) == ("prune_id_not_found", "prn_nothing")
    for start, end in ((0, 4), (5, 4), (-1, -1)):
        bad = recovered("prn_nothing", start, end)
        assert (bad["code"], bad["message"], bad["data"]["code"]) == (-32005, "invalid_range", "invalid_range")
    known = served.call("prune_text", text="one\ntwo\n", goal_hint="two", source_type="docs", options=OPTIONS)[
        "prune_id"
    ]
    assert recovered(known, 2, 99)["raw_text"] == "2│ two"
    past = recovered(known, 3, 99)
    assert (past["code"], past["data"]) == (-32005, {"code": "invalid_range", "range": 0, "total_lines": 2})
    wrong = recovered("prn_nothing", "one", 4)
    assert (wrong["code"], wrong["message"]) == (-32602, "Invalid params")
    assert wrong["data"] == {
        "jeeves": {"schemaVersion": 1},
        "method": "tools/call",
        "tool": "recover_text",
        "issues": [{"path": "arguments.ranges.0.start_line", "code": "invalid_type", "message": "invalid_type"}],
    }


def test_every_problem_of_the_arguments_is_told_in_one_order(served: Pruner) -> None:
    options = {"max_prune_ratio": 2, "min_keep_lines": -1, "timeout_ms": 0, "annotate_lines": 1, "extra": 1}
    error = served.call("prune_text", text=1, source_type="prose", options=options)
    issues = [(issue["path"].removeprefix("arguments."), issue["code"]) for issue in error["data"]["issues"]]
    assert issues == [
        ("goal_hint", "invalid_type"),
        ("options", "unrecognized_keys"),
        ("options.annotate_lines", "invalid_type"),
        ("options.include_markers", "invalid_type"),
        ("options.max_prune_ratio", "too_big"),
        ("options.min_keep_lines", "too_small"),
        ("options.timeout_ms", "too_small"),
        ("source_type", "invalid_enum_value"),
        ("text", "invalid_type"),
    ]


def test_schemas_are_the_specification_s(served: Pruner) -> None:
    def bare(schema: Any) -> Any:
        if isinstance(schema, dict):
            return {key: bare(value) for key, value in schema.items() if key != "description"}
        return schema

    listed = {tool["name"]: bare(tool["inputSchema"]) for tool in served.rpc("tools/list")["result"]["tools"]}
    names = ["max_prune_ratio", "min_keep_lines", "timeout_ms", "annotate_lines", "include_markers"]
    assert listed["prune_text"] == {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "goal_hint": {"type": "string"},
            "source_type": {"type": "string", "enum": ["code", "logs", "docs"]},
            "options": {
                "type": "object",
                "properties": {
                    "max_prune_ratio": {"type": "number", "minimum": 0, "maximum": 1},
                    "min_keep_lines": {"type": "integer", "minimum": 0},
                    "timeout_ms": {"type": "integer", "minimum": 1},
                    "annotate_lines": {"type": "boolean"},
                    "include_markers": {"type": "boolean"},
                },
                "required": names,
                "additionalProperties": False,
            },
        },
        "required": ["text", "goal_hint", "source_type", "options"],
        "additionalProperties": False,
    }
    line = {"type": "integer", "minimum": 1}
    assert listed["recover_text"] == {
        "type": "object",
        "properties": {
            "prune_id": {"type": "string"},
            "ranges": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"start_line": line, "end_line": line},
                    "required": ["start_line", "end_line"],
                    "additionalProperties": False,
                },
            },
            "include_line_numbers": {"type": "boolean"},
        },
        "required": ["prune_id", "ranges", "include_line_numbers"],
        "additionalProperties": False,
    }


def test_health_is_a_tool_a_method_and_a_page(served: Pruner) -> None:
    answers = [served.call("health"), served.rpc("health")["result"], served.request("GET", "/health")[1]]
    for answer in answers:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", answer.pop("timestamp"))
        assert answer == {
            "status": "healthy",
            "server": "mcp-pruner",
            "version": __version__,
            "capabilities": ["prune_text", "recover_text", "annotations", "markers"],
        }


def test_the_handshake_and_the_empty_lists_are_there(served: Pruner) -> None:
    begun = served.rpc("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "t"})["result"]
    assert begun["serverInfo"] == {"name": "mcp-pruner", "version": __version__}
    assert begun["capabilities"] == {"tools": {"listChanged": False}, "resources": {}, "prompts": {}}
    assert "context_focus_question" not in begun["instructions"], "no tool here takes one"
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert served.request("POST", "/rpc", note) == (204, None)
    assert served.rpc("notifications/initialized")["result"] == {}
    assert served.rpc("resources/list")["result"] == {"resources": []}
    assert served.rpc("resources/templates/list")["result"] == {"resourceTemplates": []}
    assert served.rpc("prompts/list")["result"] == {"prompts": []}
    assert served.rpc("no/such/method")["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "rebound.example"}, 421),
        ({"Origin": "http://page.example"}, 403),
        ({"Content_Type": "text/plain"}, 415),
    ],
)
def test_a_web_page_cannot_reach_it(served: Pruner, headers: dict[str, str], status: int) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert served.request("POST", "/rpc", message, **headers)[0] == status


def test_its_advice_names_only_what_it_has(served: Pruner) -> None:
    _, refusal = served.request("GET", "/health", Host="rebound.example")
    assert refusal["error"]["hint"] == "use a name or an address of the machine that it runs on"
    port = served.url.rpartition(":")[2]
    home = served.stderr.parent
    second = subprocess.run(
        [PRUNER, "http"],
        capture_output=True,
        env=clean(home, {"MCP_PRUNER_PORT": port}),
        timeout=PATIENCE_S,
        check=False,
    )
    told = json.loads(second.stderr)["data"]["message"]
    assert told == f"port {port} of 127.0.0.1 is taken; stop what uses it, or set MCP_PRUNER_PORT"


def test_beyond_loopback_it_needs_a_token(tmp_path: Path) -> None:
    with pruner(tmp_path, MCP_PRUNER_HOST="0.0.0.0", MCP_AGENT_TOKEN="a-good-token") as served:
        port = served.url.rpartition(":")[2]
        local = Pruner(served.process, f"http://127.0.0.1:{port}", served.stderr)
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert local.request("POST", "/rpc", message)[0] == 401
        assert local.request("POST", "/rpc", message, Authorization="Bearer a-good-token")[0] == 200


@pytest.mark.parametrize(
    ("name", "value"),
    [("MCP_PRUNER_PORT", "many"), ("MCP_PRUNER_PRUNE_ID_TTL_S", "0"), ("MCP_PRUNER_CWD", "/no/such/folder")],
)
def test_a_variable_that_cannot_be_used_is_told_and_nothing_starts(home: Path, name: str, value: str) -> None:
    done = subprocess.run(
        [PRUNER, "http"], env=clean(home, {name: value}), capture_output=True, timeout=PATIENCE_S, check=False
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert (done.returncode, done.stdout) == (2, b"")
    assert [line["event"] for line in lines] == ["mcp_pruner.config_invalid", "mcp_pruner.start_failed"]
    assert all(name in line["data"]["message"] for line in lines)


def test_its_end_is_told_with_how_long_it_served(tmp_path: Path) -> None:
    with pruner(tmp_path) as served:
        pass
    (told,) = [
        json.loads(line)["data"] for line in served.stderr.read_text().splitlines() if "mcp_pruner.stopped" in line
    ]
    assert isinstance(told.pop("duration_ms"), int)
    assert told == {"graceful": True}


def test_prune_speaks_the_wire_of_pruning_services(served: Pruner) -> None:
    status, answer = served.request("POST", "/prune", {"code": CODE, "query": "step_42"})
    assert status == 200
    lines = CODE.split("\n")
    kept = [lines[number - 1] for number in answer["kept_frags"]]
    gaps = re.compile(r"\(filtered (\d+) lines\)")
    shown = answer["pruned_code"].split("\n")
    assert [line for line in shown if not gaps.fullmatch(line)] == kept
    dropped = sum(int(match[1]) for line in shown if (match := gaps.fullmatch(line)))
    assert dropped + len(kept) == len(lines)
    assert (answer["error_msg"], answer["left_token_cnt"] < answer["origin_token_cnt"]) == (None, True)
    assert served.request("POST", "/prune", {"code": CODE})[0] == 422
    assert served.request("GET", "/prune")[0] == 405


def test_a_client_of_a_pruning_service_finds_all_that_it_knows(served: Pruner) -> None:
    settings = {"threshold": 0.5, "always_keep_first_frags": False, "chunk_overlap_tokens": 50}
    status, answer = served.request("POST", "/prune", {"code": "one\ntwo\n", "query": "two", **settings})
    assert status == 200
    assert (answer.pop("origin_token_cnt"), answer.pop("left_token_cnt")) == (4, 4)
    assert answer == {
        "pruned_code": "one\ntwo\n",
        "kept_frags": [1, 2],
        "score": 0.0,
        "token_scores": [],
        "model_input_token_cnt": 0,
        "error_msg": None,
    }


def test_what_prune_leaves_of_a_long_text_is_never_cut(served: Pruner) -> None:
    code = CODE * 350
    status, answer = served.request("POST", "/prune", {"code": code, "query": "step_42"})
    assert (status, answer["error_msg"], answer["pruned_code"]) == (200, "input_too_large", code)
