"""The terms of a question: their stems and weights."""

import pytest

from tools.pruning.engine.question import read_question, stem


@pytest.mark.parametrize(
    "words",
    ["parse parsed parser parsing parses", "policy policies", "stop stopped stopping", "connect connection connector"],
)
def test_the_forms_of_a_word_have_one_stem(words: str) -> None:
    assert len({stem(word) for word in words.split()}) == 1


def test_names_weigh_more_than_words_and_the_first_line_more_than_the_rest() -> None:
    terms = read_question("Close `open_file` for readers\n\nwriters stay").terms
    weights = {term.key: term.weight for term in terms}
    assert weights["openfile"] > weights[stem("close")] > weights["stay"]
    assert "for" not in weights
