"""Where the terms of a question occur in a text, and what each one is worth there."""

import numpy as np

from tools.pruning.engine.layout import Bools, Floats, Layout
from tools.pruning.engine.question import Question
from tools.pruning.engine.stems import stem
from tools.pruning.engine.words import parts_of, words_with
from tools.records import record


@record
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


def evidence_of(question: Question, layout: Layout) -> Evidence:
    total_lines = len(layout)
    count = _counts(question, layout)
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


def _counts(question: Question, layout: Layout) -> Floats:
    count = np.zeros((len(question.terms), len(layout)))
    stems = {term.key: t for t, term in enumerate(question.terms) if not term.is_name}
    names = {term.key: t for t, term in enumerate(question.terms) if term.is_name}
    found = words_with((piece for term in question.terms for piece in term.pieces), layout)
    bears = np.zeros((len(question.terms), len(found.spelled)), dtype=np.bool_)
    for w, word in enumerate(found.spelled):
        said = {stems.get(stem(part), -1) for part in parts_of(word)}
        said.add(names.get(word.replace("_", "").lower(), -1))
        bears[[t for t in said if t >= 0], w] = True
    for t, words in enumerate(bears):
        places = found.line[words[found.word]]
        count[t] = np.bincount(places, minlength=len(layout))
    return count
