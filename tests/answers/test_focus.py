"""The focus question works on tools that have never heard of it, where the profile allows it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.calls.call import Call, Caller, Outcome, Refusal, Success
from mcp_agent.resources.resources import HostResources
from registry.gate import Access
from registry.profiles import BadRegistry
from tests.support import ROOT
from tests.support.daemon import COMMAND, environment
from tests.support.pruning_service import service
from tests.support.shell_host import ShellHost, shell_host
from tests.support.small_catalog import parse
from tests.support.waiting import PATIENCE_S
from tools.kit.results import PruningMetadata

_EXAMPLES = ROOT / "examples" / "pruning"
_DOCS = ROOT / "docs"
CODE = "\n".join(f"def step_{n}(pool):\n    value = pool.take({n})\n    return value + {n}\n" for n in range(100))
_FOCUSABLE = ("fs_read", "fs_read_range", "fs_grep", "shell_exec", "shell_send_input")
# To the letter of their contract, on /rpc, the pruning tools say the id in each marker.
_MARKER = re.compile(r"⟦PRUNED: (?:prune_id=prn_\S+ )?lines (\d+)-(\d+)(?: \(\d+\) reason=\w+)?⟧")


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[ShellHost]:
    (tmp_path / "code.py").write_text(CODE)
    async with shell_host(tmp_path) as started:
        yield started


def _restored(text: str) -> list[str | None]:
    """The lines of a pruned text at their places; None where they are missing."""
    lines: list[str | None] = []
    for line in text.split("\n"):
        found = _MARKER.fullmatch(line)
        if found:
            assert int(found[1]) == len(lines) + 1
            lines += [None] * (int(found[2]) - len(lines))
        else:
            lines.append(line)
    return lines


@pytest.mark.parametrize(
    ("tool", "field", "arguments"),
    [
        ("fs_read", "content", {"path": "code.py"}),
        ("fs_read_range", "content", {"path": "code.py", "start_line": 1, "end_line": 399}),
        ("shell_exec", "stdout", {"command": "cat code.py"}),
        ("shell_exec", "stderr", {"command": "cat code.py >&2"}),
        ("read", "content", {"file_path": "code.py"}),
        ("bash", "stdout", {"command": "cat code.py"}),
    ],
)
async def test_a_question_leaves_the_lines_that_answer_it(
    host: ShellHost, tool: str, field: str, arguments: dict[str, Any]
) -> None:
    result = await host.call(tool, **arguments, context_focus_question="what does step_42 return?")
    whole = (await host.call(tool, **arguments))[field]
    restored, lines = _restored(result[field]), whole.split("\n")
    assert len(restored) == len(lines)
    assert all(shown in (None, line) for shown, line in zip(restored, lines, strict=True))
    assert "def step_42(pool):" in restored
    kept = sum(line is not None for line in restored)
    assert 0.30 * len(lines) <= kept < 0.5 * len(lines)
    pruning = result["pruning"]
    assert (pruning["attempted"], pruning["applied"], pruning["fallback"]) == (True, True, False)
    assert (pruning["raw_bytes"], pruning["pruned_bytes"]) == (len(whole), len(result[field].encode()))
    assert pruning["left_out"] == f"{len(lines) - kept} of {len(whole.splitlines())} lines left out"
    missing = restored.index(None) + 1
    ranges = [{"start_line": missing, "end_line": missing}]
    back = await host.call("recover_text", prune_id=pruning["prune_id"], ranges=ranges, include_line_numbers=False)
    assert back["raw_text"] == lines[missing - 1]


@pytest.mark.parametrize("tool", ["shell_exec", "bash"])
async def test_both_streams_are_pruned_as_one(host: ShellHost, tool: str) -> None:
    """A build prints what it does to one stream, and thousands of warnings to the other."""
    command = "printf 'built step_42' ; cat code.py >&2"
    result = await host.call(tool, wire="mcp", command=command, context_focus_question="what does step_42 return?")
    assert result["stdout"] == "built step_42"
    assert "def step_42(pool):" in result["stderr"]
    both, pruning = f"built step_42\n{CODE}", result["pruning"]
    assert pruning["raw_bytes"] == len(both)
    assert pruning["pruned_bytes"] == sum(len(result[name].encode()) for name in ("stdout", "stderr")) < len(both) / 2
    # The lines of the second stream go on behind those of the first.
    restored = _restored(f"{result['stdout']}\n{result['stderr']}")
    assert [line for line, said in zip(restored, both.split("\n"), strict=True) if line not in (None, said)] == []
    ranges = [{"start_line": 2, "end_line": 4}]
    back = await host.call("recover_text", prune_id=pruning["prune_id"], ranges=ranges, include_line_numbers=False)
    assert back["raw_text"].split("\n") == CODE.split("\n")[:3]
    # To the letter of its contract, on /rpc, the error stream beside an output is left alone.
    literal = await host.call(tool, command=command, context_focus_question="what does step_42 return?")
    assert (literal["stderr"] == CODE) is (tool == "bash")


@pytest.mark.parametrize(
    ("text", "question", "attempted", "detail", "note"),
    [
        ("short\n" * 30, "what is short?", False, "short_output", None),
        (CODE, "xylophone?", True, "nothing_matched", "not pruned: no word of the question is in it"),
        ("⟦NO_PRUNE_BEGIN⟧\n" + CODE, "step_42?", True, "nothing_dropped", "not pruned: no line could be left out"),
    ],
)
async def test_what_nothing_was_left_out_of_is_not_called_pruned(
    host: ShellHost, text: str, question: str, attempted: bool, detail: str, note: str | None
) -> None:
    (host.folder / "text").write_text(text)
    for tool, arguments in (("read", {"file_path": "text"}), ("fs_read", {"path": "text"})):
        result = await host.call(tool, **arguments, context_focus_question=question)
        pruning = result["pruning"]
        pruning.pop("pruner_duration_ms", None)
        assert result["content"] == text
        assert pruning == {
            "attempted": attempted,
            "applied": False,
            "fallback": attempted,
            "raw_bytes": len(text.encode()),
            "reason": "pruner_error" if attempted else "disabled_or_unconfigured",
            "detail": detail,
        }
        assert PruningMetadata(**pruning).note == note


@pytest.mark.parametrize(
    ("wire", "arguments", "code"),
    [
        ("http", {"command": "cat code.py; exit 3"}, None),
        ("http", {"command": "cat code.py >&2; exit 3"}, None),
        ("rpc", {"command": "cat code.py; exit 3"}, "nonzero_exit"),
        ("http", {"command": "cat code.py; sleep 60", "timeout_ms": 1_000}, "timeout"),
    ],
)
async def test_the_output_of_a_failing_command_is_pruned_and_on_mcp_it_is_a_result(
    host: ShellHost, wire: str, arguments: dict[str, Any], code: str | None
) -> None:
    result = await host.call("bash", wire=wire, **arguments, context_focus_question="what does step_42 return?")
    assert result.get("error", {}).get("code") == code
    if code is None:
        assert (result["exit_code"], result["timed_out"]) == (3, False)
    printed = result["stdout"] or result["stderr"]
    assert "def step_42(pool):" in _restored(printed)
    pruning = result["pruning"]
    assert (pruning["applied"], pruning["raw_bytes"]) == (True, len(CODE))
    assert pruning["pruned_bytes"] == len(printed.encode()) < len(CODE)


async def test_a_failing_command_is_readable_text_for_a_model(host: ShellHost) -> None:
    caller = Caller("owner", Access(), "http", "claude-code")
    call = Call("test", caller, "bash", {"command": "echo 2 failed; echo trace >&2; exit 1"})
    outcome = await host.daemon.dispatcher.call(call)
    assert isinstance(outcome, Success)
    assert isinstance(outcome.written, str)
    assert re.fullmatch(r"\[exit 1 · \d+ ms\]\n2 failed\n\[stderr\]\ntrace\n", outcome.written)


async def test_output_of_a_session_and_matches_are_pruned_too(host: ShellHost) -> None:
    question = "what does step_42 return?"
    session = await host.start("cat code.py; echo the end")
    await host.read(session, "the end")
    sent = await host.call(
        "shell_send_input", session_id=session, input="", wait_ms=0, since=0, context_focus_question=question
    )
    assert "def step_42(pool):" in _restored(sent["output"])
    assert sent["pruning"]["applied"]
    for tool, arguments in (("fs_grep", {"base": "code.py"}), ("grep", {"path": "code.py"})):
        found = await host.call(tool, **arguments, pattern="def|return", context_focus_question=question)
        whole = await host.call(tool, **arguments, pattern="def|return")
        assert len(whole["matches"]) == 200
        assert 60 <= len(found["matches"]) < 100
        more = await host.call(tool, **arguments, pattern="def|return", context_focus_question=question, keep=0.6)
        assert len(more["matches"]) >= 120
        assert [match for match in whole["matches"] if match in found["matches"]] == found["matches"]
        assert any("step_42" in match["text"] for match in found["matches"])


@pytest.mark.parametrize(
    ("tool", "field", "arguments"),
    [
        ("read", "content", {"file_path": "code.py"}),
        ("fs_read", "content", {"path": "code.py"}),
        ("bash", "stdout", {"command": "cat code.py"}),
    ],
)
async def test_the_caller_says_how_much_to_keep(
    host: ShellHost, tool: str, field: str, arguments: dict[str, Any]
) -> None:
    kept = []
    for keep in (0.1, 0.5, 1):
        result = await host.call(tool, **arguments, context_focus_question="what does step_42 return?", keep=keep)
        lines = _restored(result[field])
        kept.append(sum(line is not None for line in lines) / len(lines))
        assert kept[-1] >= keep
    assert kept == sorted(set(kept))
    wrong = await host.call(tool, wire="http", **arguments, context_focus_question="step_42?", keep=0.05)
    assert (wrong["error"]["code"], "0.1" in wrong["error"]["message"]) == ("INVALID_PARAMS", True)


async def test_markers_can_be_french(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(CODE)
    async with shell_host(tmp_path, markers="fr") as host:
        asked = {"file_path": "code.py", "context_focus_question": "what does step_42 return?"}
        literal = (await host.call("read", **asked))["content"]
        brief = (await host.call("read", wire="mcp", **asked))["content"]
    assert re.search(r"^⟦PRUNÉ: prune_id=prn_\S+ lignes \d+-\d+ \(\d+\) raison=accessoire⟧$", literal, re.MULTILINE)
    assert re.search(r"^⟦PRUNÉ: lignes \d+-\d+⟧$", brief, re.MULTILINE)
    assert "PRUNED" not in literal + brief


async def test_the_argument_is_listed_and_taken_only_where_the_profile_allows_it(host: ShellHost) -> None:
    gate = host.daemon.gate

    def taking() -> set[str]:
        visible = gate.visible(Access())
        return {tool.name for tool in visible if "context_focus_question" in tool.input_schema["properties"]}

    assert taking() == {*_FOCUSABLE, "read", "bash", "grep"}
    text = '{"version": 1, "profiles": [{"id": "default", "pruning": {"everywhere": false}}]}'
    gate.swap(parse(text, gate.catalog))
    assert taking() == {"read", "bash", "grep"}
    refused = await host.call("fs_read", path="code.py", context_focus_question="why?")
    assert refused["error"]["issues"] == [
        {"path": "arguments", "code": "unrecognized_keys", "message": "unrecognized_keys"}
    ]


def test_a_profile_says_everywhere_with_true_or_false_alone() -> None:
    from registry.catalog import discover

    text = '{"version": 1, "profiles": [{"id": "default", "pruning": {"everywhere": "no"}}]}'
    with pytest.raises(BadRegistry) as refused:
        parse(text, discover())
    assert [problem.pointer for problem in refused.value.problems] == ["/profiles/0/pruning/everywhere"]


async def test_the_host_s_own_list_knows_the_tools_that_take_a_question(host: ShellHost) -> None:
    resources = HostResources(host.daemon.gate)
    caller = Caller("o", Access(), "http")
    (overview,) = await resources.read(caller, "host://tools") or []
    listed = {
        tool["name"]: tool["enabled"] for each in json.loads(overview["text"])["categories"] for tool in each["tools"]
    }
    assert all(listed[name] for name in _FOCUSABLE)
    (one,) = await resources.read(caller, "host://tools/fs_read") or []
    shown = json.loads(one["text"])
    assert (shown["enabled"], "context_focus_question" in shown["inputSchema"]["properties"]) == (True, True)


async def test_what_one_caller_pruned_is_not_there_for_another(host: ShellHost) -> None:
    mine = await host.call("read", file_path="code.py", context_focus_question="what does step_42 return?")
    wanted = {
        "prune_id": mine["pruning"]["prune_id"],
        "ranges": [{"start_line": 1, "end_line": 1}],
        "include_line_numbers": False,
    }
    stranger = Caller("somebody else", Access(), "rpc")
    outcome = await host.daemon.dispatcher.call(Call("test", stranger, "recover_text", wanted))
    assert isinstance(outcome, Refusal)
    assert outcome.error_code == -32004


async def test_the_page_shows_what_really_comes_back(host: ShellHost) -> None:
    (host.folder / "orders.py").write_text((_EXAMPLES / "orders.py").read_text())
    question = "how is the discount computed?"
    result = await host.call("read", wire="mcp", file_path="orders.py", context_focus_question=question)
    shown = result["content"].rstrip("\n")
    assert f"```text pruned\n{shown}\n```\n" in (_DOCS / "pruning.md").read_text()


async def test_nothing_is_dropped_that_could_not_be_had_back(host: ShellHost) -> None:
    (host.folder / "state").mkdir(exist_ok=True)
    (host.folder / "state" / "artifacts").write_text("a file where the folder should be")
    options = {
        "max_prune_ratio": 0.9,
        "min_keep_lines": 1,
        "timeout_ms": 10_000,
        "annotate_lines": True,
        "include_markers": True,
    }
    pruned = await host.call("prune_text", text=CODE, goal_hint="step_42", source_type="code", options=options)
    assert (pruned["pruned_text"], pruned["warnings"]) == (CODE, ["recovery_unavailable"])
    read = await host.call("fs_read", path="code.py", context_focus_question="what does step_42 return?")
    assert (read["content"], read["pruning"]["fallback"]) == (CODE, True)


@pytest.mark.parametrize(
    ("behaviour", "matches", "code"),
    [("first half", 50, None), ("words that are no matches", 100, "invalid_response")],
)
async def test_a_service_that_sends_no_matches_leaves_them_all(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    behaviour: str,
    matches: int,
    code: str | None,
) -> None:
    (tmp_path / "code.py").write_text(CODE)
    with service() as remote:
        remote.behaviour = behaviour
        async with shell_host(tmp_path, pruner_url=remote.url) as host:
            found = await host.call("fs_grep", base=".", pattern="take", glob="*.py", context_focus_question="step_42?")
    assert len(found["matches"]) == matches
    assert found["pruning"].get("error", {}).get("code") == code
    assert ("pruner.call_failed" in caplog.messages) == (code is not None)


def test_a_host_over_stdio_ends_well_after_it_has_pruned(home: Path) -> None:
    (home / "code.py").write_text(CODE)
    arguments = {"path": "code.py", "context_focus_question": "what does step_42 return?"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "fs_read", "arguments": arguments}}
    with subprocess.Popen(
        [COMMAND, "stdio", "--log-level", "debug"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(home),
        cwd=home,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        # The end of its input would end the call.
        answer = json.loads(process.stdout.readline())
        _, logged = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, logged
    assert answer["result"]["structuredContent"]["pruning"]["applied"]
    lines = [json.loads(line) for line in logged.splitlines()]
    responded = [line["data"] for line in lines if line["event"] == "tool.respond_ok"]
    assert responded == [{"tool": "fs_read", "mode": "pruned"}]


async def _longest_wait(work: Any) -> float:
    """The longest that this process worked without its event loop coming round; time of other processes is not ours."""
    task = asyncio.ensure_future(work)
    worst = 0.0
    before = time.process_time()
    while not task.done():
        await asyncio.sleep(0.001)
        now = time.process_time()
        worst, before = max(worst, now - before), now
    await task
    return worst


async def test_a_log_of_two_megabytes_holds_up_nobody(host: ShellHost) -> None:
    lines = [f"2024-05-01 10:00:{n % 60:02} INFO w{n % 7} did {n} in {n % 97} ms" for n in range(50_000)]
    lines[30_000] = "2024-05-01 ERROR the database did not answer"
    text = "\n".join(lines)[:1_999_000]
    options = {
        "max_prune_ratio": 0.55,
        "min_keep_lines": 40,
        "timeout_ms": 1_500,
        "annotate_lines": False,
        "include_markers": True,
    }
    arguments = {"text": text, "goal_hint": "why did it fail?", "source_type": "logs", "options": options}

    async def pruned() -> Outcome:
        return await host.daemon.dispatcher.call(Call("t", Caller("o", Access(), "rpc"), "prune_text", arguments))

    waits = [await _longest_wait(pruned()) for _ in range(3)]
    assert min(waits) <= 0.02, waits
    began = time.process_time()
    outcome = await pruned()
    took_s = time.process_time() - began
    assert isinstance(outcome, Success)
    told = outcome.reply.as_object()
    assert told["warnings"] in ([], ["timeout"])
    assert took_s < 1.0, "the engine has a limit and processes of its own; what we do is to keep and write the text"
    if not told["warnings"]:
        assert lines[30_000] in told["pruned_text"]
    back = {
        "prune_id": told["prune_id"],
        "ranges": [{"start_line": 1, "end_line": 50_000}],
        "include_line_numbers": True,
    }

    async def recovered() -> Outcome:
        return await host.daemon.dispatcher.call(Call("t", Caller("o", Access(), "rpc"), "recover_text", back))

    waits = [await _longest_wait(recovered()) for _ in range(3)]
    assert min(waits) <= 0.02, waits
