"""What holds for every text, question and option: order, limits, verbatim lines, protected blocks, determinism."""

import re
import subprocess
import sys
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.pruning import engine
from tools.pruning.engine import GaveUp, Selection, SourceType

CODE = "\n".join(f"def f{n}(x):\n    y = x + {n}\n    return y\n" for n in range(30))
MARKER = re.compile(r"^⟦PRUNÉ: prune_id=(\S+) lignes (\d+)-(\d+) \((\d+)\) raison=(.*)⟧$")
BEGIN, END = "⟦NO_PRUNE_BEGIN⟧", "⟦NO_PRUNE_END⟧"

_lines = st.one_of(
    st.sampled_from(
        [
            "",
            "    ",
            "import os",
            "class Pool:",
            "    def acquire(self, timeout):",
            "        return self.timeout",
            "}",
            "fn release(pool: &Pool) {",
            "# Timeouts",
            "Timeouts",
            "========",
            "```python",
            "```",
            "- a list item about the pool",
            "ERROR pool exhausted",
            "2024-01-01 10:00:00 INFO started",
            "tests/test_pool.py::test_error PASSED",
            '"""',
            "a line\r",
            BEGIN,
            END,
        ]
    ),
    st.text(alphabet=st.characters(exclude_characters="\n", exclude_categories=()), max_size=30),
)
texts = st.lists(_lines, max_size=120).map("\n".join)
questions = st.one_of(st.just("why does the pool timeout fail?"), st.text(max_size=60))
kinds = st.sampled_from([None, *get_args(SourceType)])
ratios = st.one_of(st.sampled_from([0.0, 0.3, 0.55, 0.7, 1.0]), st.floats(0, 1))


def pruned(text: str, question: str, kind: SourceType | None, ratio: float, minimum: int = 0) -> Selection:
    return engine.prune(text, question, source_type=kind, max_prune_ratio=ratio, min_keep_lines=minimum)


@settings(max_examples=250, deadline=None)
@given(text=texts, question=questions, kind=kinds, ratio=ratios, minimum=st.integers(0, 60))
def test_no_more_is_dropped_than_allowed(
    text: str, question: str, kind: SourceType | None, ratio: float, minimum: int
) -> None:
    selection = pruned(text, question, kind, ratio, minimum)
    counted = len(text.split("\n")) - (1 if text.endswith("\n") or text == "" else 0)
    kept = counted - selection.dropped_lines
    assert selection.dropped_lines <= ratio * counted + 1e-9
    assert kept >= min(minimum, counted)
    assert (selection.warnings == ("constraints_unmet",)) == (minimum > counted)


@settings(max_examples=150, deadline=None)
@given(text=texts, question=questions, kind=kinds, ratio=ratios)
def test_dropped_blocks_are_in_order_and_apart_and_kept_lines_are_the_rest(
    text: str, question: str, kind: SourceType | None, ratio: float
) -> None:
    selection = pruned(text, question, kind, ratio)
    dropped = [line for block in selection.dropped for line in range(block.start, block.end + 1)]
    assert dropped == sorted(set(dropped))
    assert all(before.end + 1 < after.start for before, after in pairwise(selection.dropped))
    assert len(text.split("\n")) not in dropped or not text.endswith("\n")
    assert sorted([*dropped, *selection.kept()]) == list(range(1, len(text.split("\n")) + 1))


@settings(max_examples=150, deadline=None)
@given(text=texts, question=questions, kind=kinds, ratio=ratios)
def test_the_text_can_be_put_together_again_from_what_is_rendered(
    text: str, question: str, kind: SourceType | None, ratio: float
) -> None:
    original = text.split("\n")
    rendered = engine.render(text, pruned(text, question, kind, ratio), "prn_01TEST")
    restored: list[str] = []
    markers = iter(rendered.annotations)
    for line in rendered.pruned_text.split("\n"):
        marker = MARKER.match(line)
        if marker and marker[1] == "prn_01TEST":
            annotation = next(markers)
            first, last, count = int(marker[2]), int(marker[3]), int(marker[4])
            assert annotation.marker == line
            assert (first, count) == (len(restored) + 1, last - first + 1)
            restored += original[first - 1 : last]
        else:
            restored.append(line)
    assert restored == original
    assert next(markers, None) is None


@settings(max_examples=80, deadline=None)
@given(text=texts, question=questions, kind=kinds, ratio=ratios)
def test_the_same_call_gives_the_same_selection(
    text: str, question: str, kind: SourceType | None, ratio: float
) -> None:
    assert pruned(text, question, kind, ratio) == pruned(text, question, kind, ratio)


@settings(max_examples=120, deadline=None)
@given(before=st.lists(_lines, max_size=60), inside=st.lists(_lines, max_size=10), after=st.lists(_lines, max_size=60))
@pytest.mark.parametrize("kind", get_args(SourceType))
def test_a_protected_block_stays_with_both_directives(
    kind: SourceType, before: list[str], inside: list[str], after: list[str]
) -> None:
    inside = [line for line in inside if END not in line]
    text = "\n".join([*before, BEGIN, *inside, END, *after])
    kept = set(pruned(text, "pool", kind, 1.0).kept())
    assert kept.issuperset(range(len(before) + 1, len(before) + len(inside) + 3))


@settings(max_examples=120, deadline=None)
@given(
    prose=st.lists(st.sampled_from(["", "Pools have a size.", "# Pools", "Timeouts are short."]), max_size=80),
    data=st.data(),
)
def test_a_code_block_of_a_document_is_kept_whole_or_not_at_all(prose: list[str], data: st.DataObject) -> None:
    lines = list(prose)
    fences: list[tuple[int, int]] = []
    for _ in range(data.draw(st.integers(1, 3))):
        body = data.draw(st.lists(st.sampled_from(["pool = Pool()", "", "# timeout"]), max_size=6))
        fences.append((len(lines) + 1, len(lines) + len(body) + 2))
        lines += ["```python", *body, "```", *data.draw(st.lists(st.just("Other words."), max_size=20))]
    kept = set(pruned("\n".join(lines), "pool timeout", "docs", data.draw(ratios)).kept())
    for first, last in fences:
        block = set(range(first, last + 1))
        assert block <= kept or not block & kept


@pytest.mark.parametrize(("directive", "protected"), [(BEGIN, range(51, 102)), (END, range(51, 52))])
def test_a_directive_without_its_partner_protects_what_it_may_have_meant(directive: str, protected: range) -> None:
    lines = [f"2024-05-01 10:00:00 INFO batch {n} is done" for n in range(100)]
    text = "\n".join([*lines[:50], directive, *lines[50:]])
    kept = set(pruned(text, "batch 7", "logs", 1.0).kept())
    assert kept.issuperset(protected)
    assert 45 not in kept


@pytest.mark.parametrize("ratio", [0.1, 0.25, 0.5, 0.7])
def test_where_nothing_else_is_worth_keeping_the_limit_is_met_to_the_line(ratio: float) -> None:
    lines = [f"2024-05-01 10:00:00 INFO batch {n} is done" for n in range(200)]
    selection = pruned("\n".join([*lines, ""]), "batch 7", "logs", ratio)
    assert selection.dropped_lines == int(ratio * 200)


@pytest.mark.parametrize("text", ["", "\n", "\n\n\n", "one", "one\n", "\ud800\n", "\x00\n\t\n"])
@pytest.mark.parametrize("kind", [None, *get_args(SourceType)])
def test_texts_of_almost_nothing_are_rendered_whole_when_nothing_may_go(text: str, kind: SourceType | None) -> None:
    selection = pruned(text, "", kind, 0.0)
    assert engine.render(text, selection, "prn_1").pruned_text == text


@pytest.mark.parametrize("kind", get_args(SourceType))
@pytest.mark.parametrize("ratio", [0.3, 0.7, 1.0])
def test_a_final_newline_survives(kind: SourceType, ratio: float) -> None:
    text = "".join(f"line {n} of nothing in particular, and some more of it\n" for n in range(80))
    rendered = engine.render(text, pruned(text, "line 7", kind, ratio), "prn_1").pruned_text
    assert rendered.endswith("\n")
    assert rendered != text


def test_a_deadline_that_has_passed_stops_the_engine() -> None:
    with pytest.raises(GaveUp):
        engine.prune(CODE, "f7", max_prune_ratio=0.7, min_keep_lines=0, deadline=lambda: True)


def test_the_deadline_is_asked_throughout() -> None:
    asked: list[None] = []

    def deadline() -> bool:
        asked.append(None)
        return len(asked) > 4

    with pytest.raises(GaveUp):
        engine.prune(CODE, "f7", max_prune_ratio=0.7, min_keep_lines=0, deadline=deadline)


def test_more_lines_wanted_than_there_are_keeps_all_with_a_warning() -> None:
    selection = engine.prune("a\nb\nc\n", "a", source_type="docs", max_prune_ratio=0.9, min_keep_lines=40)
    assert selection == Selection(dropped=(), total_lines=4, source_type="docs", warnings=("constraints_unmet",))


def test_importing_the_engine_does_not_load_numpy() -> None:
    script = "import sys, tools.pruning.engine; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
