"""The focus question: what it needs of the body of a result, and the lines of a text that match it best.

The pruning engine decides which lines a question needs, and that may be hundreds. Where there is room for a few, they
are ranked by the words that they share with the question; a rare word counts for more.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson
from msgspec.structs import replace

from tools.context import FocusRequest, ToolContext
from tools.kit.results import Body, PruningMetadata, Result
from tools.kit.spec import Tool
from tools.pruning.engine.question import Question, read_question, split_identifier, stem

_NAME = re.compile(r"\w+")
# Lines near a match get this share of its worth, up to that many lines away: few answers are a single line.
_NEIGHBOUR = 0.45
_REACH = 3
# The most lines that are ranked, so that a short answer does not take seconds.
_MOST_LINES = 50_000
_MOST_CHARS = 1_000


async def focus(
    result: Result,
    question: str | None,
    keep: float | None,
    tool: Tool,
    context: ToolContext,
    adapt: Callable[[FocusRequest], FocusRequest],
    room_bytes: int | None,
) -> tuple[Result, PruningMetadata | None]:
    """`result` with what the question needs of its body, and what the pruner did; all of it if there is no pruner.

    With `adapt` the tool's contract changes what a pruner is asked for. A text that is larger than `room_bytes` is
    pruned further: the question tells better than its middle what to leave out.
    """
    pruner = context.pruner
    if pruner is None:
        return result, None
    body = result.body
    value = (getattr(result, body.field) if body.field else "") or ""
    text, lines = _body_text(result, value)
    if question is not None and pruner.is_on and text and not (result.facts.succeeded or pruner.prunes_failures):
        return result, PruningMetadata.of_skip("disabled_or_unconfigured", _size(text), "command_failed")
    known = None if lines is None else dict(zip(lines, value, strict=True))
    parse = body.parse or (lambda _: None)
    request = FocusRequest(
        text=text,
        question=question,
        tool=tool.name,
        call_id=context.call_id,
        owner=context.owner,
        markers=lines is None,
        source_type=None if body.kind == "list" else body.kind,
        # What executes answers with what was printed; a list is none of that.
        is_output=tool.effect == "execute" and lines is None,
        keep=keep,
        more=getattr(result, body.more_field) if body.more_field else "",
        room_bytes=room_bytes if lines is None else None,
        is_line=None if known is None else lambda line: line in known or parse(line) is not None,
    )
    request = adapt(request)
    focused = await pruner.focus(request)
    if not focused.pruning.applied:
        return result, focused.pruning
    shown: Any = focused.text
    if lines is not None and focused.kept is not None:
        shown = [value[index] for index in focused.kept]
    elif known is not None:
        # A service sends lines back; one that it has changed is taken as it is.
        shown = [entry for line in focused.text.split("\n") if (entry := known.get(line) or parse(line)) is not None]
    changed: Result = replace(result, **{body.field: shown})
    if request.more:
        changed = replace(changed, **{body.more_field: focused.more})
    return changed, focused.pruning


def body_bytes(result: Result) -> int:
    """How large the output of a tool is, before anything of it is left out."""
    body = result.body
    if not body.field:
        return len(orjson.dumps(result.as_object(), default=str))
    more = (getattr(result, body.more_field) if body.more_field else "") or ""
    return _size(_body_text(result, getattr(result, body.field) or "")[0]) + _size(more)


def _body_text(result: Result, value: Any) -> tuple[str, list[str] | None]:
    """The body as one text, and its lines if it is a list."""
    body = result.body
    if body.kind != "list":
        return value, None
    lines = [write_line(body, result, entry) for entry in value]
    return "\n".join(lines), lines


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def pruning_of_failure(question: str | None, context: ToolContext) -> PruningMetadata:
    """Why nothing was pruned of a call that gave no output."""
    is_off = context.pruner is None or not context.pruner.is_on
    if question is None:
        return PruningMetadata.of_skip("no_focus_question", 0)
    return PruningMetadata.of_skip("disabled_or_unconfigured" if is_off else "output_empty", 0)


def write_line(body: Body, result: Result, entry: Any) -> str:
    """An element of the list as one line."""
    if body.line is not None:
        return body.line(entry).replace("\n", " ")
    item = result.item(entry)
    return f"{item.id} {item.label}".strip().replace("\n", " ")


def rank_lines(lines: Sequence[str], question: str) -> list[int]:
    """The indexes of the lines that match, the best first, and of two that match alike the earlier one first.

    None if no line has a word of the question.
    """
    asked = read_question(question)
    found = [_terms_in(line[:_MOST_CHARS], asked) for line in lines[:_MOST_LINES]]
    frequencies = Counter(term for terms in found for term in terms)
    if not frequencies:
        return []
    weights = {
        term.key: term.weight * math.log(1 + len(found) / frequencies[term.key])
        for term in asked.terms
        if term.key in frequencies
    }
    scores = [sum(map(weights.__getitem__, terms)) for terms in found]
    worth = scores
    for _ in range(_REACH):
        around = [0.0, *worth, 0.0]
        worth = [
            max(score, _NEIGHBOUR * before, _NEIGHBOUR * after)
            for before, score, after in zip(around, worth, around[2:], strict=False)
        ]
    return sorted((index for index, value in enumerate(worth) if value > 0), key=lambda index: -worth[index])


def group_runs(ranked: Sequence[int], most_lines: int, most_runs: int) -> list[list[int]]:
    """The best lines in order, those that follow each other as one run: as many as both limits allow."""
    for count in range(min(most_lines, len(ranked)), 0, -1):
        runs: list[list[int]] = []
        for index in sorted(ranked[:count]):
            if runs and runs[-1][-1] == index - 1:
                runs[-1].append(index)
            else:
                runs.append([index])
        if len(runs) <= most_runs:
            return runs
    return []


def _terms_in(line: str, asked: Question) -> set[str]:
    """The terms of the question that a line has."""
    names = _NAME.findall(line)
    words = {stem(part) for part in _parts(names)}
    whole = {name.replace("_", "").lower() for name in names}
    return {
        term.key
        for term in asked.terms
        if (term.key in line if term.is_bigram else term.key in (whole if term.is_name else words))
    }


def _parts(names: Iterable[str]) -> Iterable[str]:
    return (part for name in names for part in split_identifier(name))
