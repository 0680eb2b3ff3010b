"""The terms of a question: their stems and weights."""

import pytest

from tools.pruning.engine.question import are_kin, read_question, stem


@pytest.mark.parametrize(
    "words",
    ["parse parsed parser parsing parses", "policy policies", "stop stopped stopping", "connect connection connector"],
)
def test_the_forms_of_a_word_have_one_stem(words: str) -> None:
    assert len({stem(word) for word in words.split()}) == 1


@pytest.mark.parametrize(
    ("one", "other", "is_so"),
    [
        ("authentication", "auth", True),
        ("configuration", "config", True),
        ("deprecation", "deprecate", True),
        ("format", "for", False),
        ("contact", "container", False),
        ("internal", "interface", False),
    ],
)
def test_words_that_begin_alike_are_kin(one: str, other: str, is_so: bool) -> None:
    assert are_kin(one, other) is is_so
    assert are_kin(other, one) is is_so


def test_names_weigh_more_than_words_and_the_first_line_more_than_the_rest() -> None:
    terms = read_question("Close `open_file` for readers\n\nwriters stay").terms
    weights = {term.key: term.weight for term in terms}
    assert weights["openfile"] > weights[stem("close")] > weights["stay"]
    assert "for" not in weights


@pytest.mark.parametrize(
    "topic", ["fix(parser): ", "parser: ", "feat(parser)!: ", "[parser][3.12] ", "[3.12] parser: "]
)
def test_the_part_of_a_project_that_a_commit_message_names_first_weighs_less(topic: str) -> None:
    weights = {term.key: term.weight for term in read_question(f"{topic}Close readers late").terms}
    assert 0 < weights[stem("parser")] < weights[stem("readers")]
    plain = {term.key: term.weight for term in read_question("Close readers late").terms}
    assert weights[stem("readers")] == plain[stem("readers")]


def test_an_error_before_a_colon_weighs_as_much_as_ever() -> None:
    weights = {term.key: term.weight for term in read_question("KeyError: missing").terms}
    assert weights["keyerror"] > weights[stem("missing")]


@pytest.mark.parametrize("code", ["`set`", "set()", "'set'", '"set"', "--set", "set="])
def test_what_looks_like_code_is_a_term_even_if_it_is_a_common_word(code: str) -> None:
    weights = {term.key: term.weight for term in read_question(f"Why does {code} freeze").terms}
    assert weights["set"] > weights[stem("freeze")]
    assert "set" not in {term.key for term in read_question("Why does set freeze").terms}


@pytest.mark.parametrize("name", ["src/retries.py", "`retries.py`", "retries.py"])
def test_the_ending_of_a_source_file_is_no_term(name: str) -> None:
    keys = {term.key for term in read_question(f"Move the limit from {name} to the client").terms}
    assert stem("retries") in keys
    assert "py" not in keys


@pytest.mark.parametrize(
    "aside",
    [
        "Let me look at {}",
        "I'll start by reading {}",
        "Now I need to update {}",
        "Good question. Let me first check {}",
        "I\u2019ll read the relevant files to understand the current state of {}",
        "Implement the following plan:\n# {}",
    ],
)
def test_what_an_agent_says_of_itself_is_no_term(aside: str) -> None:
    plain = {term.key: term.weight for term in read_question("How do the retries end?").terms}
    assert {term.key: term.weight for term in read_question(aside.format("how the retries end")).terms} == plain


def test_a_question_of_which_nothing_is_left_says_nothing() -> None:
    assert read_question("Let me read the relevant files to understand the current implementation.").terms == ()


def test_the_name_of_a_source_file_weighs_less_than_what_is_asked_of_it() -> None:
    weights = {term.key: term.weight for term in read_question("Why does src/client/backoff.go end too late?").terms}
    assert 0 < weights[stem("backoff")] < weights[stem("late")]


def test_a_whole_name_weighs_a_little_less_than_its_parts() -> None:
    weights = {(term.key, term.is_name): term.weight for term in read_question("Raise max_age").terms}
    assert 0 < weights["maxage", True] < weights["max", False]
