"""What is kept of code: what the question names, with the headers around it and an outline of the rest."""

from tools.pruning import engine
from tools.pruning.engine.api import evidence_in, parse_text, question_features
from tools.pruning.engine.features import CODE_QUESTION_FEATURES
from tools.pruning.engine.question import read_question


def module(functions: int, *, body_lines: int = 12) -> list[str]:
    lines = ["import os", "import sys", ""]
    for n in range(functions):
        lines += [f"class Shape{n}:", f"    def area_{n}(self, width, height):"]
        lines += [f"        step_{n}_{k} = width * {k} + height - {n}" for k in range(body_lines)]
        lines += ["        return width", ""]
    return lines


def kept_of(lines: list[str], question: str, *, ratio: float = 0.7) -> list[str]:
    selection = engine.prune("\n".join(lines), question, source_type="code", max_prune_ratio=ratio, min_keep_lines=0)
    return [lines[number - 1] for number in selection.kept()]


def with_line(lines: list[str], after: str, new: str) -> list[str]:
    at = lines.index(after) + 1
    return [*lines[:at], new, *lines[at:]]


def test_the_line_that_answers_is_kept_with_its_function_and_class() -> None:
    lines = with_line(module(12), "    def area_7(self, width, height):", "        retries = self.backoff.limit")
    kept = kept_of(lines, "Raise the backoff limit for retries")
    assert "        retries = self.backoff.limit" in kept
    assert "    def area_7(self, width, height):" in kept
    assert "class Shape7:" in kept


def test_headers_come_along_from_any_distance() -> None:
    lines = ["class Outer:", "    def method(self):", *(f"        step_{n} = {n} * {n}" for n in range(400))]
    lines.append("        retries = self.backoff.limit")
    kept = kept_of([*lines, "", *module(20)], "Raise the backoff limit for retries", ratio=0.95)
    assert "        retries = self.backoff.limit" in kept
    assert "        step_200 = 200 * 200" not in kept
    assert kept[:2] == ["class Outer:", "    def method(self):"]


def test_parts_of_identifiers_answer_to_plain_words() -> None:
    lines = with_line(module(12), "    def area_4(self, width, height):", "        self.maxConnectionAge = None")
    assert "        self.maxConnectionAge = None" in kept_of(lines, "limit the age of connections")


def test_an_abbreviation_answers_to_the_whole_word_where_it_matters_most() -> None:
    lines = module(12)
    for n in (3, 8):
        lines = with_line(lines, f"    def area_{n}(self, width, height):", "        self.token = None")
    for n in range(2, 6):
        lines = with_line(lines, f"        step_8_{n} = width * {n} + height - 8", f"        self.auth_{n} = None")
    kept = kept_of(lines, "refuse an authentication token", ratio=0.9)
    assert "        self.auth_5 = None" in kept


def test_an_abbreviation_alone_is_no_match() -> None:
    lines = with_line(module(12), "    def area_4(self, width, height):", "        self.auth = None")
    assert kept_of(lines, "authentication") == lines


def test_a_match_counts_for_the_five_lines_below_it() -> None:
    parsed = parse_text("\n".join([*"abcd", "backoff", *"efghij"]), "code")
    features = question_features(parsed, evidence_in(parsed, read_question("Raise the backoff")))
    above = features[CODE_QUESTION_FEATURES.index("matches_above")]
    assert above.tolist() == [0] * 5 + [0.2] * 5 + [0]


def test_inflected_words_meet_their_stem() -> None:
    lines = with_line(module(12), "    def area_4(self, width, height):", "        tokens = self.parse(source)")
    assert "        tokens = self.parse(source)" in kept_of(lines, "fix the parser when parsing fails")


def test_a_name_in_backticks_outweighs_common_words() -> None:
    lines = with_line(module(12), "    def area_9(self, width, height):", "        flush_journal(width)")
    assert "        flush_journal(width)" in kept_of(lines, "area width: call `flush_journal` before")


def test_imports_are_kept_for_orientation() -> None:
    lines = with_line(module(60), "    def area_40(self, width, height):", "        retries = self.backoff.limit")
    kept = kept_of(lines, "backoff limit", ratio=0.95)
    assert kept[:2] == ["import os", "import sys"]
    assert "class Shape1:" not in kept


def test_a_question_that_finds_nothing_prunes_nothing() -> None:
    lines = module(12)
    assert kept_of(lines, "zebra quagga", ratio=0.7) == lines


def test_cuts_are_few_and_large() -> None:
    lines = module(40)
    selection = engine.prune(
        "\n".join(lines), "area of shape 7", source_type="code", max_prune_ratio=0.7, min_keep_lines=0
    )
    assert selection.dropped_lines > len(lines) / 2
    assert len(selection.dropped) <= 3 * len(lines) / 100


def test_a_final_newline_survives_when_the_end_is_cut_away() -> None:
    dear = f"last_of_all = {list(range(200))}"
    text = "\n".join(["retries = backoff.limit", *module(30), dear, ""])
    selection = engine.prune(text, "backoff limit", source_type="code", max_prune_ratio=0.97, min_keep_lines=0)
    assert "last_of_all" not in engine.render(text, selection, "prn_1").pruned_text
    assert engine.render(text, selection, "prn_1").pruned_text.endswith("⟧\n")


def test_lines_with_carriage_returns_come_back_as_they_were() -> None:
    lines = [f"{line}\r" for line in module(12)]
    text = "\n".join(lines)
    selection = engine.prune(text, "area_7", source_type="code", max_prune_ratio=0.7, min_keep_lines=0)
    rendered = engine.render(text, selection, "prn_1").pruned_text.split("\n")
    assert [line for line in rendered if not line.startswith("⟦")] == [lines[n - 1] for n in selection.kept()]
    assert selection.dropped
