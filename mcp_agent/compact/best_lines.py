"""Which lines of a text match a question best, for results that have room for a few of them.

The pruning engine decides which lines a question needs, and that may be hundreds. Here they are ranked by the words
that they share with the question; a rare word counts for more.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from tools.pruning.engine.question import Question, read_question, split_identifier, stem

_NAME = re.compile(r"\w+")
# A line beside one that matches is worth this much of it, as far as so many lines: an answer seldom is one line.
_NEIGHBOUR = 0.45
_REACH = 3
# Of a longer text only so many lines are looked at, so that a short answer does not take seconds.
_MOST_LINES = 50_000
_MOST_CHARS = 1_000


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
