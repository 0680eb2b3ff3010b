"""`mcp-pruner` over standard input and output: read, bash and grep to the letter of their contract."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_agent import __version__
from tests.support.pruner_http import PRUNER, clean
from tests.support.pruner_stdio import Reader, reader
from tests.support.pruning_service import service
from tests.support.waiting import PATIENCE_S

CODE = "\n".join(f"def step_{n}(pool):\n    value = pool.take({n})\n    return value + {n}\n" for n in range(100))
UNASKED = {"attempted": False, "applied": False, "fallback": False, "reason": "no_focus_question"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    (folder / "src").mkdir()
    (folder / "src" / "app.py").write_text("import os\n\nneedle = 1\nNEEDLE = 2\n")
    (folder / "src" / "a:b.txt").write_text("needle: in a file with a colon\n")
    (folder / "long.py").write_text(CODE)
    (folder / "notes.txt").write_text("é" * 1000)
    (folder / "raw.bin").write_bytes(b"caf\xe9\n")
    return folder


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Reader]:
    with reader(tmp_path_factory.mktemp("home"), root, PRUNER_URL="") as started:
        yield started


def _timeless(result: dict[str, Any]) -> dict[str, Any]:
    assert isinstance(result.pop("duration_ms"), int)
    return result


def test_the_handshake_names_the_server_and_its_schema(served: Reader) -> None:
    client = {"name": "test", "version": "1"}
    answer = served.rpc("initialize", {"protocolVersion": "2025-06-18", "clientInfo": client, "capabilities": {}})
    assert answer["result"] == {
        "protocolVersion": "2025-06-18",
        "serverInfo": {"name": "@jeeves/mcp-pruner", "version": __version__},
        "capabilities": {"tools": {"listChanged": False}},
        "jeeves": {"schemaVersion": 1},
    }
    listed = served.rpc("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in listed] == ["bash", "grep", "read"]
    assert served.rpc("resources/list")["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("method", "params", "issues"),
    [
        ("initialize", {}, [("protocolVersion", "invalid_type")]),
        (
            "initialize",
            {"protocolVersion": 1, "clientInfo": {"version": 2}},
            [
                ("clientInfo.name", "invalid_type"),
                ("clientInfo.version", "invalid_type"),
                ("protocolVersion", "invalid_type"),
            ],
        ),
        ("tools/call", {"name": "write", "arguments": {}}, [("name", "invalid_enum_value")]),
        ("tools/call", {"arguments": {}}, [("name", "invalid_type")]),
        ("tools/call", {"name": "read", "arguments": []}, [("arguments", "invalid_type")]),
        ("tools/call", {"name": "read"}, [("arguments.file_path", "invalid_type")]),
        ("tools/call", [], [("", "invalid_type")]),
        ("tools/list", "all", [("", "invalid_type")]),
        ("tools/list", {"cursor": "next"}, [("cursor", "custom")]),
        ("tools/list", {"cursor": 2}, [("cursor", "invalid_type")]),
    ],
)
def test_parameters_that_do_not_fit_are_told_alike_for_every_method(
    served: Reader, method: str, params: Any, issues: list[tuple[str, str]]
) -> None:
    error = served.rpc(method, params)["error"]
    data: dict[str, Any] = {"jeeves": {"schemaVersion": 1}, "method": method}
    if isinstance(params, dict) and "name" in params:
        data["tool"] = params["name"]
    data["issues"] = [{"path": path, "code": code, "message": code} for path, code in issues]
    assert error == {"code": -32602, "message": "Invalid params", "data": data}


@pytest.mark.parametrize(
    ("tool", "arguments", "issues"),
    [
        ("read", {"file_path": ""}, ["file_path too_small"]),
        ("read", {"file_path": "a\0b"}, ["file_path custom"]),
        ("read", {"file_path": "../out"}, ["file_path custom"]),
        ("read", {"file_path": "src/../../out"}, ["file_path custom"]),
        ("read", {"file_path": "/etc/hosts"}, ["file_path custom"]),
        ("read", {"file_path": "x", "encoding": "latin-1"}, ["encoding invalid_literal"]),
        ("read", {"file_path": "x", "max_output_bytes": 1023}, ["max_output_bytes too_small"]),
        ("read", {"file_path": "x", "max_output_bytes": 10485761}, ["max_output_bytes too_big"]),
        ("read", {"file_path": "x", "context_focus_question": " \n"}, ["context_focus_question too_small"]),
        ("read", {"file_path": "x", "context_focus_question": "x" * 1001}, ["context_focus_question too_big"]),
        ("bash", {"command": ""}, ["command too_small"]),
        ("bash", {"command": "x" * 50001}, ["command too_big"]),
        ("bash", {"command": "x", "cwd": "/"}, ["cwd custom"]),
        ("bash", {"command": "x", "timeout_ms": 99}, ["timeout_ms too_small"]),
        ("bash", {"command": "x", "timeout_ms": 300001}, ["timeout_ms too_big"]),
        ("bash", {"command": "x", "env": {"low": "x", "UP": "v" * 4001}}, ["env.UP too_big", "env.low invalid_string"]),
        ("bash", {"command": "x", "env": {f"V{n}": "" for n in range(201)}}, ["env too_big"]),
        ("grep", {"pattern": ""}, ["pattern too_small"]),
        ("grep", {"pattern": "x" * 10001}, ["pattern too_big"]),
        ("grep", {"pattern": "x", "path": "..", "cwd": ".."}, ["cwd custom", "path custom"]),
        ("grep", {"pattern": "x", "paths": []}, ["paths too_small"]),
        ("grep", {"pattern": "x", "paths": ["."] * 101}, ["paths too_big"]),
        ("grep", {"pattern": "x", "paths": ["src", "/etc"]}, ["paths.1 custom"]),
        ("grep", {"pattern": "x", "path": ".", "paths": ["."]}, [" custom"]),
        ("grep", {"pattern": "x", "max_matches": 5001, "cwd": 1}, ["cwd invalid_type", "max_matches too_big"]),
        ("read", {"path": "src/app.py"}, [" unrecognized_keys", "file_path invalid_type"]),
        ("bash", {"command": "x", "timeout_ms": "500"}, ["timeout_ms invalid_type"]),
        ("bash", {"command": "x", "description": "x"}, [" unrecognized_keys"]),
        ("grep", {"pattern": "x", "paths": "src"}, ["paths invalid_type"]),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_refused_before_anything_is_done(
    served: Reader, tool: str, arguments: dict[str, Any], issues: list[str]
) -> None:
    error = served.call(tool, **arguments)
    found = [
        f"{each['path'].removeprefix('arguments').removeprefix('.')} {each['code']}" for each in error["data"]["issues"]
    ]
    assert (error["code"], error["message"], found) == (-32602, "Invalid params", issues)


def test_read_gives_a_file_whole(served: Reader, root: Path) -> None:
    text = (root / "src" / "app.py").read_text()
    expected = {
        "tool": "read",
        "encoding": "utf-8",
        "content": text,
        "truncated": False,
        "bytes": len(text),
        "pruning": {**UNASKED, "raw_bytes": len(text)},
    }
    around = root / ".." / root.name / "src" / "app.py"
    for path in ("src/app.py", "./src/../src/app.py", str(root / "src" / "app.py"), str(around)):
        assert _timeless(served.call("read", file_path=path)) == {**expected, "file_path": path}


def test_read_never_splits_a_character_where_it_cuts(served: Reader) -> None:
    result = served.call("read", file_path="notes.txt", max_output_bytes=1025)
    assert (result["content"], result["truncated"], result["bytes"]) == ("é" * 512, True, 1024)
    assert served.call("read", file_path="raw.bin")["content"] == "caf\ufffd\n"


@pytest.mark.parametrize(
    ("path", "code"), [("missing.txt", "not_found"), ("src", "invalid_path"), ("src/app.py/x", "not_found")]
)
def test_what_read_cannot_do_is_an_error_of_the_tool(served: Reader, path: str, code: str) -> None:
    result = served.call("read", file_path=path, context_focus_question="why?")
    assert (result["tool"], result["error"]["code"]) == ("read", code)
    assert result["pruning"] == {**UNASKED, "raw_bytes": 0, "reason": "disabled_or_unconfigured"}


def test_bash_gives_both_streams(served: Reader, root: Path) -> None:
    command = "printf 'one\\n'; printf two >&2; printf \"$HERE\""
    result = served.call("bash", command=command, cwd="src", env={"HERE": "three"})
    assert _timeless(result) == {
        "tool": "bash",
        "command": command,
        "cwd": str(root / "src"),
        "stdout": "one\nthree",
        "stderr": "two",
        "exit_code": 0,
        "timed_out": False,
        "truncated": False,
        "pruning": {**UNASKED, "raw_bytes": 9},
    }
    assert served.call("bash", command="pwd -P", cwd="src")["stdout"] == f"{root / 'src'}\n"


def test_bash_that_fails_is_an_error_with_its_output(served: Reader) -> None:
    result = served.call("bash", command="echo out; echo err >&2; exit 3", context_focus_question="why?")
    assert result == {
        "tool": "bash",
        "error": {"code": "nonzero_exit", "message": "the command ended with exit code 3", "exit_code": 3},
        "stdout": "out\n",
        "stderr": "err\n",
        "pruning": {**UNASKED, "raw_bytes": 4, "reason": "disabled_or_unconfigured"},
    }


def test_bash_is_ended_in_time_with_all_that_it_started(served: Reader, root: Path) -> None:
    result = served.call("bash", command="echo begun; (sleep 60 & echo $! > pid); sleep 60", timeout_ms=500)
    assert (result["error"]["code"], result["stdout"]) == ("timeout", "begun\n")
    status = Path(f"/proc/{(root / 'pid').read_text().strip()}/status")
    # Dead, whether or not it has been buried yet.
    assert not status.exists() or "zombie" in status.read_text()
    timeouts = [line["data"] for line in served.log("tool.exec_timeout") if line["event"] == "tool.exec_timeout"]
    assert timeouts == [{"tool": "bash", "timeout_ms": 500}]


def test_bash_keeps_the_beginning_of_a_long_output(served: Reader) -> None:
    result = served.call("bash", command="seq 1 100000", max_output_bytes=1024)
    whole = "".join(f"{n}\n" for n in range(1, 100001))
    assert (result["stdout"], result["truncated"]) == (whole[:1024], True)


@pytest.mark.parametrize(("out", "err"), [(5000, 5000), (5000, 100), (100, 5000), (1024, 1), (512, 512), (10, 10)])
def test_both_streams_of_bash_together_stay_below_the_cap(served: Reader, out: int, err: int) -> None:
    """Each may have half of it, and what the other does not need."""
    command = f"printf '%{out}s' '' | tr ' ' o; printf '%{err}s' '' | tr ' ' e >&2"
    result = served.call("bash", command=command, max_output_bytes=1024)
    assert set(result["stdout"] + result["stderr"]) == {"o", "e"}
    sizes = len(result["stdout"]), len(result["stderr"])
    assert sizes == (min(out, max(512, 1024 - err)), min(err, max(512, 1024 - out)))
    assert result["truncated"] == (out + err > 1024)


def test_bash_does_not_start_outside_the_root(served: Reader, root: Path) -> None:
    (root / "away").symlink_to("/")
    for cwd in ("away", "away/tmp", "missing", "long.py"):
        assert served.call("bash", command="pwd", cwd=cwd)["error"]["code"] == "invalid_cwd"


def test_bash_inherits_nothing_that_loads_code(tmp_path: Path, root: Path) -> None:
    (tmp_path / "evil.sh").write_text("echo evil\n")
    with reader(tmp_path, root, BASH_ENV=str(tmp_path / "evil.sh"), LD_LIBRARY_PATH="/nowhere", SAFE="kept") as served:
        result = served.call("bash", command='echo "${LD_LIBRARY_PATH-unset} ${BASH_ENV-unset} $SAFE"')
    assert result["stdout"] == "unset unset kept\n"


def test_grep_gives_matches_with_their_places(served: Reader, root: Path) -> None:
    result = served.call("grep", pattern="need.e", path="src")
    assert _timeless(result) == {
        "tool": "grep",
        "pattern": "need.e",
        "paths": ["src"],
        "matches": [
            {"path": f"{root}/src/a:b.txt", "line": 1, "column": 1, "text": "needle: in a file with a colon"},
            {"path": f"{root}/src/app.py", "line": 3, "column": 1, "text": "needle = 1"},
        ],
        "match_count": 2,
        "truncated": False,
        "pruning": {**UNASKED, "raw_bytes": result["pruning"]["raw_bytes"]},
    }


def test_grep_obeys_its_switches_and_limits(served: Reader, root: Path) -> None:
    def places(**arguments: Any) -> list[str]:
        found = served.call("grep", **arguments)
        return [f"{Path(match['path']).name}:{match['line']}" for match in found["matches"]]

    assert places(pattern="need.e", fixed_string=True) == []
    assert places(pattern="NEEDLE", case_sensitive=False, path="src/app.py") == ["app.py:3", "app.py:4"]
    assert places(pattern="needle", paths=["src/app.py", "src/a:b.txt"]) == ["app.py:3", "a:b.txt:1"]
    assert places(pattern="needle", cwd="src") == ["a:b.txt:1", "app.py:3"]
    assert places(pattern="--files") == []
    cut = served.call("grep", pattern="step", path="long.py", max_matches=7)
    assert (cut["match_count"], cut["truncated"]) == (7, True)
    short = served.call("grep", pattern="return", path="long.py", max_output_bytes=1024)
    assert short["truncated"] is True
    assert sum(len(match["text"]) for match in short["matches"]) == 1024
    whole = served.call("grep", pattern="def step_9", path="long.py", max_matches=11)
    assert (whole["match_count"], whole["truncated"]) == (11, False)


def test_what_grep_cannot_do_is_an_error_of_the_tool(served: Reader) -> None:
    bad = served.call("grep", pattern="(")["error"]
    assert (bad["code"], bad["exit_code"]) == ("rg_error", 2)
    for path in ("missing", "away", "away/etc"):
        assert served.call("grep", pattern="x", path=path)["error"]["code"] == "invalid_path"


def test_the_built_in_engine_can_be_asked_for(tmp_path: Path, root: Path) -> None:
    with reader(tmp_path, root, PRUNER_URL="builtin") as started:
        result = started.call("read", file_path="long.py", context_focus_question="what does step_42 return?")
    assert result["pruning"]["applied"]
    assert len(result["content"]) < len(CODE)


def test_a_service_that_is_not_there_names_the_built_in_engine(tmp_path: Path, root: Path) -> None:
    with reader(tmp_path, root, PRUNER_URL="http://127.0.0.1:9/prune") as started:
        result = started.call("read", file_path="long.py", context_focus_question="what does step_42 return?")
    assert result["content"] == CODE
    assert "PRUNER_URL=builtin" in result["pruning"]["error"]["message"]


def test_the_log_is_json_lines_and_the_protocol_has_stdout_to_itself(tmp_path: Path, root: Path) -> None:
    with reader(tmp_path, root, PRUNER_URL="http://127.0.0.1:9/prune") as served:
        served.call("read", file_path="src/app.py", context_focus_question="what is it?")
        served.call("read", file_path="missing")
        served.call("read")
    events = {line["event"]: line for line in served.log("mcp_pruner.stopped")}
    assert events["mcp_pruner.ready"]["data"] == {"root": str(root)}
    assert events["mcp_pruner.stopped"]["data"]["graceful"] is True
    assert events["tool.request_invalid"]["data"]["tool"] == "read"
    assert events["tool.exec_failed"]["data"]["code"] == "not_found"
    start = events["pruner.call_start"]
    assert start["data"] == {"endpoint": "http://127.0.0.1:9/prune", "tool": "read", "input_bytes": 33}
    assert events["pruner.call_failed"]["data"]["reason"] == "http_error"
    assert start["request_id"] == events["pruner.call_failed"]["request_id"]
    assert all(set(line) <= {"ts", "level", "event", "request_id", "data"} for line in events.values())


def test_the_log_follows_a_request_from_its_arrival_to_its_answer(tmp_path: Path, root: Path) -> None:
    with service() as remote, reader(tmp_path, root, PRUNER_URL=remote.url) as served:
        (root / "text.txt").write_text("é\n" * 100)
        served.call("read", file_path="text.txt", context_focus_question="what is it?")
    lines = [line for line in served.log("mcp_pruner.stopped") if "request_id" in line]
    assert [line["event"] for line in lines] == [
        "tool.request_received",
        "tool.exec_start",
        "tool.exec_ok",
        "pruner.call_start",
        "pruner.call_ok",
        "tool.respond_ok",
    ]
    assert len({line["request_id"] for line in lines}) == 1
    assert {line["data"]["tool"] for line in lines} == {"read"}
    assert lines[2]["data"]["bytes"] == lines[3]["data"]["input_bytes"] == 300, "what the tool has read"
    assert lines[2]["data"]["duration_ms"] >= 0
    assert lines[-1]["data"]["mode"] == "pruned"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read", {"file_path": "../x"}),
        ("bash", {"command": "pwd", "cwd": "../x"}),
        ("bash", {"command": "pwd", "env": {"lower": "x"}}),
        ("grep", {"pattern": "a", "path": "b", "paths": ["c"]}),
    ],
)
def test_no_tool_starts_with_arguments_that_do_not_fit(
    tmp_path: Path, root: Path, tool: str, arguments: dict[str, Any]
) -> None:
    with reader(tmp_path, root) as served:
        assert served.call(tool, **arguments)["code"] == -32602
    events = [line["event"] for line in served.log("mcp_pruner.stopped") if "request_id" in line]
    assert events == ["tool.request_received", "tool.request_invalid"]


def test_a_command_that_fails_did_not_go_well_in_the_log(tmp_path: Path, root: Path) -> None:
    with reader(tmp_path, root) as served:
        served.call("bash", command="exit 3")
    events = [line["event"] for line in served.log("mcp_pruner.stopped") if "request_id" in line]
    assert events == ["tool.request_received", "tool.exec_start", "tool.exec_failed"]


def test_an_answer_that_nobody_takes_is_in_the_log(tmp_path: Path, root: Path) -> None:
    process = subprocess.Popen(
        [PRUNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean(tmp_path, {"MCP_PRUNER_CWD": str(root)}),
    )
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, told = process.communicate('{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n', timeout=PATIENCE_S)
    failures = [json.loads(line) for line in told.splitlines() if "respond_failed" in line]
    assert [(line["event"], line["data"]) for line in failures] == [("tool.respond_failed", {"message": "Broken pipe"})]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PRUNER_TIMEOUT_MS", "99"),
        ("PRUNER_TIMEOUT_MS", "300001"),
        ("PRUNER_TIMEOUT_MS", "soon"),
        ("PRUNER_URL", "localhost:8000"),
        ("PRUNER_URL", "ftp://localhost/prune"),
        ("MCP_PRUNER_CWD", "/no/such/folder"),
    ],
)
def test_a_variable_that_cannot_be_used_is_told_and_nothing_starts(home: Path, name: str, value: str) -> None:
    done = subprocess.run(
        [PRUNER], env=clean(home, {name: value}), capture_output=True, timeout=PATIENCE_S, input=b"", check=False
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert (done.returncode, done.stdout) == (2, b"")
    assert [line["event"] for line in lines] == ["mcp_pruner.config_invalid", "mcp_pruner.start_failed"]
    assert all(name in line["data"]["message"] for line in lines)


def test_what_is_cut_is_not_said_to_be_read_by_a_tool_that_is_not_there(served: Reader, root: Path) -> None:
    (root / "large.txt").write_text("a line of text\n" * 100_000)
    read = served.call("read", file_path="large.txt", max_output_bytes=10 * 1024 * 1024)
    assert read["result_bytes"] > 1_000_000
    assert read["hint"] == "Ask for less at once."
    assert "artifactRef" not in read, "nothing here could read it"
