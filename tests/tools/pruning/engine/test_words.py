"""How the words of a question are found in a text, whatever they are part of and however they are written."""

import random
import re

import pytest

from tools.pruning import engine
from tools.pruning.engine.characters import characters_of
from tools.pruning.engine.words import Words, parts_of

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


@pytest.mark.parametrize("seed", range(20))
def test_the_parts_of_a_text_are_those_of_its_words(seed: int) -> None:
    text = "".join(random.Random(seed).choices("abXYZ01_ .\néÉß²٣漢\u0130\u212a\U0001f600", k=400))
    words = Words(text, characters_of(text))
    every = words.spelled(*words.parts(words.beginning("")))
    assert [part.lower() for part in every] == [part for word in re.findall(r"\w+", text) for part in parts_of(word)]


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
