"""An external pruning service: what it does well is used, and whatever it does wrong leaves the raw output."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.pruning_service.host_pruner import HostPruner
from mcp_agent.pruning_service.remote import shown_url
from mcp_agent.storage.artifact_store import ArtifactStore
from tests.support.daemon import running
from tests.support.pruner_stdio import reader
from tests.support.pruning_service import Service, service
from tests.support.waiting import eventually
from tools.context import FocusRequest
from tools.kit.results import Focused

TEXT = "\n".join(f"line {n} of the text" for n in range(60))
HALF = "\n".join([*TEXT.split("\n")[:30], "(filtered 30 lines)"])


@pytest.fixture
def remote() -> Iterator[Service]:
    with service() as started:
        yield started


def _pruner(url: str | None, folder: Path, timeout_s: float = 5.0) -> HostPruner:
    return HostPruner(
        ArtifactStore(folder / "artifacts"),
        url=url,
        timeout_s=timeout_s,
        max_input_chars=2_000_000,
    )


async def _focused(pruner: HostPruner, text: str = TEXT, question: str | None = "  which line?  ") -> Focused:
    return await pruner.focus(FocusRequest(text=text, question=question, tool="read", call_id="c", owner="o"))


@pytest.mark.parametrize("behaviour", ["first half", "field content", "field text", "chunked"])
async def test_the_pruned_text_is_taken_from_the_first_field_that_has_it(
    remote: Service, tmp_path: Path, behaviour: str
) -> None:
    remote.behaviour = behaviour
    seen = await _focused(_pruner(remote.url, tmp_path))
    assert seen.text == HALF
    told = seen.pruning.as_object()
    assert isinstance(told.pop("pruner_duration_ms"), int)
    assert told == {
        "attempted": True,
        "applied": True,
        "fallback": False,
        "raw_bytes": len(TEXT),
        "pruned_bytes": len(HALF),
    }
    assert remote.asked == [{"code": TEXT, "query": "which line?"}]


@pytest.mark.parametrize(
    ("behaviour", "code", "message"),
    [
        ("unchanged with error_msg", "invalid_response", "the model is not loaded"),
        ("too large for us", "invalid_response", "larger than"),
        ("endless headers", "invalid_response", "got more than 100 headers"),
        ("not json", "invalid_response", "not JSON"),
        ("no field", "invalid_response", "none of pruned_code, content, text"),
        ("a list", "invalid_response", "not a JSON object"),
        ("server error", "http_error", "status 500"),
        ("redirect", "http_error", "status 302"),
        ("hang up", "http_error", "before its answer was complete"),
        ("silence", "timeout", "within 0.3 s"),
        ("drip", "timeout", "within 0.3 s"),
    ],
)
async def test_whatever_goes_wrong_leaves_the_raw_output(
    remote: Service, tmp_path: Path, behaviour: str, code: str, message: str
) -> None:
    remote.behaviour = behaviour
    seen = await _focused(_pruner(remote.url, tmp_path, 0.3 if code == "timeout" else 5.0))
    assert seen.text == TEXT
    told = seen.pruning.as_object()
    assert message in told["error"].pop("message")
    assert isinstance(told.pop("pruner_duration_ms"), int)
    assert told == {
        "attempted": True,
        "applied": False,
        "fallback": True,
        "reason": "pruner_error",
        "raw_bytes": len(TEXT),
        "error": {"code": code},
    }
    assert [each for each in remote.asked if "redirected" in each] == []


async def test_a_service_that_is_not_there_is_an_http_error(tmp_path: Path) -> None:
    seen = await _focused(_pruner("http://127.0.0.1:9/prune", tmp_path))
    assert (seen.text, seen.pruning.error and seen.pruning.error["code"]) == (TEXT, "http_error")


async def test_no_proxy_of_the_environment_is_asked(
    remote: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert (await _focused(_pruner(remote.url, tmp_path))).pruning.applied


async def test_a_cancelled_call_stops_waiting_for_the_service(remote: Service, tmp_path: Path) -> None:
    """More of them than there are threads: each must give its thread back."""
    pruner = _pruner(remote.url, tmp_path, 30.0)
    remote.behaviour = "silence"
    for number in range(12):
        call = asyncio.create_task(_focused(pruner))
        await eventually(lambda: len(remote.asked), partial(operator.eq, number + 1))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    remote.behaviour = "first half"
    assert (await _focused(pruner)).pruning.applied


async def test_after_three_failures_it_is_left_alone(remote: Service, tmp_path: Path) -> None:
    pruner = _pruner(remote.url, tmp_path)
    remote.behaviour = "server error"
    attempts = [(await _focused(pruner)).pruning.attempted for _ in range(5)]
    assert (attempts, len(remote.asked)) == ([True] * 5, 3)
    resting = (await _focused(pruner)).pruning
    assert (resting.reason, resting.detail, resting.fallback) == ("pruner_error", "circuit_open", True)
    assert resting.error is not None
    assert resting.error["code"] == "http_error"
    assert resting.note == (
        "not pruned: the pruning service failed three times and is asked again half a minute later; "
        "the last failure: the service answered with status 500"
    )
    assert (await _focused(pruner, "")).pruning.reason == "output_empty"


# What a service may answer, and what is then the text.
ANSWERS = {
    "empty": "",
    "nothing left": "(filtered 60 lines)",
    "one line": "line 0 of the text",
    "unchanged": TEXT,
    "larger than the input": TEXT + TEXT,
}


@pytest.mark.parametrize("behaviour", list(ANSWERS))
def test_mcp_pruner_uses_any_valid_answer_whatever_its_length(remote: Service, tmp_path: Path, behaviour: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "text.txt").write_text(TEXT)
    remote.behaviour = behaviour
    with reader(tmp_path, root, PRUNER_URL=remote.url) as served:
        answers = [
            served.call(tool, **arguments, context_focus_question="which?")
            for tool, arguments in [("read", {"file_path": "text.txt"}), ("bash", {"command": "cat text.txt"})] * 2
        ]
    assert [each.get("content", each.get("stdout")) for each in answers] == [ANSWERS[behaviour]] * 4
    assert [each["pruning"]["applied"] for each in answers] == [True] * 4
    assert {each["pruning"]["pruned_bytes"] for each in answers} == {len(ANSWERS[behaviour])}
    assert len(remote.asked) == 4, "none of them was a failure"


@pytest.mark.parametrize("behaviour", list(ANSWERS))
async def test_the_daemon_leaves_an_answer_aside_that_is_not_shorter_and_counts_no_failure(
    remote: Service, home: Path, behaviour: str
) -> None:
    (home / "text.txt").write_text(TEXT)
    remote.behaviour = behaviour
    is_shorter = len(ANSWERS[behaviour]) < len(TEXT)
    with running(home, extra={"PRUNER_URL": remote.url}) as daemon:
        for _ in range(4):
            call = {"name": "read", "arguments": {"file_path": "text.txt", "context_focus_question": "which?"}}
            read = (await daemon.rpc("tools/call", **call))["result"]["structuredContent"]
            assert read["content"] == (ANSWERS[behaviour] if is_shorter else TEXT)
            assert (read["pruning"]["applied"], read["pruning"].get("detail")) == (
                (True, None) if is_shorter else (False, "not_shorter")
            )
    assert len(remote.asked) == 4, "none of them was a failure"


async def test_lines_that_cannot_be_of_the_text_are_a_failure_like_any_other(remote: Service, tmp_path: Path) -> None:
    pruner = _pruner(remote.url, tmp_path)
    for _ in range(3):
        request = FocusRequest(
            text=TEXT,
            question="which line?",
            tool="grep",
            call_id="c",
            owner="o",
            is_line=lambda line: line.endswith("the page"),
        )
        seen = await pruner.focus(request)
        assert (seen.text, seen.pruning.applied) == (TEXT, False)
        assert seen.pruning.error == {
            "code": "invalid_response",
            "message": "the service sent a line that is no match: 'line 0 of the text'",
        }
    assert (await _focused(pruner)).pruning.detail == "circuit_open", "it is left alone"


async def test_a_success_in_between_forgives_failures(remote: Service, tmp_path: Path) -> None:
    pruner = _pruner(remote.url, tmp_path)
    for behaviour in ("server error", "server error", "first half", "server error", "server error", "first half"):
        remote.behaviour = behaviour
        assert (await _focused(pruner)).pruning.attempted


@pytest.mark.parametrize(
    ("url", "text", "question", "reason"),
    [
        ("here", TEXT, None, "no_focus_question"),
        ("", TEXT, "why?", "disabled_or_unconfigured"),
        ("here", "", "why?", "output_empty"),
        ("here", "x" * (4 * 1024 * 1024 + 1), "why?", "too_large"),
        (None, "x" * 2_000_001, "why?", "too_large"),
    ],
)
async def test_nobody_is_asked_where_there_is_nothing_to_ask(
    remote: Service, tmp_path: Path, url: str | None, text: str, question: str | None, reason: str
) -> None:
    seen = await _focused(_pruner(remote.url if url == "here" else url, tmp_path), text, question)
    assert (seen.text == text, remote.asked) == (True, [])
    assert seen.pruning.as_object() == {
        "attempted": False,
        "applied": False,
        "fallback": False,
        "reason": reason,
        "raw_bytes": len(text),
    }


def test_the_three_tools_send_what_their_contract_says(remote: Service, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "text.txt").write_text(TEXT)

    def asked(tool: str, **arguments: Any) -> dict[str, Any]:
        return served.call(tool, **arguments, context_focus_question=" which? ")

    with reader(tmp_path, root, PRUNER_URL=remote.url) as served:
        read = asked("read", file_path="text.txt")
        out = asked("bash", command="cat text.txt; echo warned >&2")
        error = asked("bash", command="cat text.txt >&2")
        found = asked("grep", pattern="line", path="text.txt", fixed_string=True)
        failed = asked("bash", command="cat text.txt; exit 3")
        remote.behaviour = "words that are no matches"
        unread = asked("grep", pattern="line [0-9] ", path="text.txt")
    assert read["content"] == HALF
    assert (out["stdout"], out["stderr"]) == (HALF, "warned\n")
    assert (error["stdout"], error["stderr"]) == ("", HALF)
    rendered = "\n".join(f"{root}/text.txt:{n + 1}:1:line {n} of the text" for n in range(60))
    assert [each["code"] for each in remote.asked[:4]] == [TEXT, TEXT, TEXT, rendered]
    assert {each["query"] for each in remote.asked} == {"which?"}
    assert [match["line"] for match in found["matches"]] == list(range(1, 31))
    assert (found["match_count"], found["pruning"]["applied"]) == (30, True)
    assert (failed["error"]["code"], failed["stdout"]) == ("nonzero_exit", TEXT)
    assert failed["pruning"] == {
        "attempted": False,
        "applied": False,
        "fallback": False,
        "raw_bytes": len(TEXT),
        "reason": "disabled_or_unconfigured",
        "detail": "command_failed",
    }
    assert (unread["match_count"], unread["pruning"]["error"]["code"]) == (10, "invalid_response")
    events = [line["event"] for line in served.log("pruner.call_ok") if line["event"].startswith("pruner.")]
    assert events[:2] == ["pruner.call_start", "pruner.call_ok"]


def test_a_url_is_shown_without_what_may_be_a_key() -> None:
    """Seen: `/health` left the query out, and each line of the log had it."""
    assert shown_url("https://me:secret@host:8000/prune?key=secret#x") == "https://host:8000/prune"
