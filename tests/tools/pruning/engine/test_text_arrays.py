"""The lines and words of a text, and how the words of a question are found there, however they are written."""

import random
import re

import numpy as np
import pytest

from tools.pruning import engine
from tools.pruning.engine.question import split_identifier
from tools.pruning.engine.text_arrays import Words, read_characters, read_lines

FILLER = [f"    step_{n} = width * {n} + height - {n % 7}" for n in range(120)]


def kept_of(line: str, question: str) -> list[str]:
    """What is left of a long function with this line in the middle."""
    lines = ["def area(width, height):", *FILLER[:60], line, *FILLER[60:]]
    text = "\n".join(lines)
    selection = engine.prune(text, question, source_type="code", max_prune_ratio=0.9, min_keep_lines=0)
    return [lines[number - 1] for number in selection.kept()]


@pytest.mark.parametrize(
    ("line", "question"),
    [
        ("    policies.apply()", "the policy"),
        ("    policy.apply()", "which policies are there?"),
        ("    x = retryPolicyFor(y)", "retry policy"),
        ("    x = RETRY_POLICY", "retry policy"),
        ("    x = HTTPServer2(y)", "http server"),
        ("    café = été", "où est le café ?"),
        ("    İstanbul = retries", "retries"),
        ("    # 这里设置连接超时的时间", "如何配置连接超时？"),
        ("    # タイムアウトの設定", "接続のタイムアウト"),
        ("    # ตั้งค่าหมดเวลา", "หมดเวลาเท่าไร"),
        ("    # 这里用retries表示次数", "retries"),
    ],
)
def test_a_word_is_found_however_it_is_written(line: str, question: str) -> None:
    kept = kept_of(line, question)
    assert line in kept
    assert len(kept) < 40


def test_letters_inside_another_word_are_not_that_word() -> None:
    assert len(kept_of("    unpolicyable = 1", "the policy")) == len(FILLER) + 2, "nothing is found, so all of it stays"


def some_text(seed: int) -> str:
    return "".join(random.Random(seed).choices("abXYZ01_ .\n\téÉß²٣漢\u0130\u212a\U0001f600", k=400))


@pytest.mark.parametrize("seed", range(20))
def test_the_parts_of_a_text_are_those_of_its_words(seed: int) -> None:
    text = some_text(seed)
    words = Words(text, read_characters(text))
    parts = words.starting_with("")
    every = words.spellings(*words.extents(parts, np.zeros(parts.size, dtype=np.bool_)))
    in_words = [part for word in re.findall(r"\w+", text) for part in split_identifier(word)]
    assert [part.lower() for part in every] == in_words


@pytest.mark.parametrize("seed", range(20))
def test_every_place_in_a_word_leads_to_the_whole_word(seed: int) -> None:
    text = some_text(seed).replace("漢", " ")
    words = Words(text, read_characters(text))
    for match in re.finditer(r"\w+", text):
        start, end = words.around(np.arange(match.start(), match.end()))
        assert set(zip(start.tolist(), end.tolist(), strict=True)) == {match.span()}


@pytest.mark.parametrize("seed", range(20))
def test_lines_are_measured_as_one_by_one(seed: int) -> None:
    text = some_text(seed).replace("漢", " ")
    lines = read_lines(text, read_characters(text))
    expected = text.split("\n")
    assert [lines.line(number) for number in range(len(lines))] == expected
    assert lines.is_blank.tolist() == [not line.strip() for line in expected]
    assert lines.tokens.tolist() == [len(re.findall(r"\w+|[^\w\s]", line)) for line in expected]
    for number, line in enumerate(expected):
        if line.strip():
            ends = [min(ord(line.strip()[place]), 127) for place in (0, -1)]
            assert [int(lines.first[number]), int(lines.last[number])] == ends
            margin = line[: len(line) - len(line.lstrip())]
            assert lines.indent[number] == len(margin) + 3 * margin.count("\t")


def test_what_is_remembered_of_a_text_changes_no_answer() -> None:
    def selected(text: str, question: str) -> engine.Selection:
        return engine.prune(text, question, source_type="code", max_prune_ratio=0.7, min_keep_lines=0)

    text = "\n".join(["def area(width, height):", *FILLER, "    retries = policy.limit", ""])
    questions = ("the limit of retries", "step_40", "the limit of retries")
    again = [selected(text, question) for question in questions]
    for number in range(8):
        selected(f"{number}\n{text}", "height")
    assert [selected(text, question) for question in questions] == again
    assert again[0] == again[2] != again[1]
