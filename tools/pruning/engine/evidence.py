"""Where the terms of a question occur in a text, and what each one is worth there."""

from dataclasses import dataclass

import numpy as np

from tools.pruning.engine.layout import Bools, Floats, Ints
from tools.pruning.engine.question import Question
from tools.pruning.engine.stems import stem
from tools.pruning.engine.words import Words


@dataclass(frozen=True, slots=True)
class Evidence:
    """`count[t, i]` is how often term t stands on line i; terms that occur nowhere are left out.

    `weight` is what the question gives a term times its rarity in the text. `is_name` marks whole identifiers.
    `terms_asked` and `weight_asked` are of the whole question, whole identifiers aside; `found` is the share of that
    weight which occurs at all.
    """

    count: Floats
    weight: Floats
    is_name: Bools
    terms_asked: int
    weight_asked: float
    found: float


def evidence_of(question: Question, words: Words, total_lines: int) -> Evidence:
    count = _counts(question, words, total_lines)
    lines_with = (count > 0).sum(axis=1)
    occurs = lines_with > 0
    asked = np.array([term.weight for term in question.terms], dtype=np.float64)
    is_name = np.array([term.is_name for term in question.terms], dtype=np.bool_)
    rarity = np.log1p((total_lines - lines_with + 0.5) / (lines_with + 0.5)) / np.log1p(total_lines + 1.0)
    plain = asked * ~is_name
    return Evidence(
        count=count[occurs],
        weight=(asked * rarity)[occurs],
        is_name=is_name[occurs],
        terms_asked=int((~is_name).sum()),
        weight_asked=float(plain.sum()),
        found=float(plain[occurs].sum() / plain.sum()) if plain.any() else 0.0,
    )


def _counts(question: Question, words: Words, total_lines: int) -> Floats:
    count = np.zeros((len(question.terms), total_lines))
    stems = {term.key: t for t, term in enumerate(question.terms) if not term.is_name}
    names = {term.key: t for t, term in enumerate(question.terms) if term.is_name}
    term_of_part = _terms_of_parts(words.parts, stems)[words.part]
    answers = term_of_part >= 0
    pairs = set(zip(words.part_word[answers].tolist(), term_of_part[answers].tolist(), strict=True))
    if names:
        pairs.update((word, names[whole]) for word, whole in enumerate(words.whole) if whole in names)
    if not pairs:
        return count
    pair_word, pair_term = np.array(sorted(pairs)).T
    terms_of_word = np.bincount(pair_word, minlength=len(words.vocabulary))
    hit = np.flatnonzero(terms_of_word[words.word])
    size = terms_of_word[words.word[hit]]
    last = np.cumsum(terms_of_word)[words.word[hit]]
    at = np.repeat(last - np.cumsum(size), size) + np.arange(size.sum())
    np.add.at(count, (pair_term[at], np.repeat(words.line[hit], size)), 1.0)
    return count


def _terms_of_parts(parts: list[str], stems: dict[str, int]) -> Ints:
    """Give each part the term it answers to, or -1. Stemming leaves the first two letters of a word alone."""
    beginnings = {key[:2] for key in stems}
    return np.array([stems.get(stem(part), -1) if part[:2] in beginnings else -1 for part in parts], dtype=np.int64)
