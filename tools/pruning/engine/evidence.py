"""Where the terms of a question occur in a text, and what each one is worth there."""

import numpy as np

from tools.kit.records import record
from tools.pruning.engine.arrays import Bools, Floats, Ints
from tools.pruning.engine.layout import Layout
from tools.pruning.engine.question import Question, Term
from tools.pruning.engine.stems import LONGEST_ENDING, SHORTEST_STEM, stem
from tools.pruning.engine.words import Words

# Weights are whole multiples of this, so that a sum of them is exact, in whatever order it is taken.
_GRAIN = 2.0**-40
_NO_LIMIT = 1 << 62


@record
class Evidence:
    """The k-th find: term `term[k]` stands on line `line[k]` `times[k]` times. Finds are in order of term and line.

    Terms that occur nowhere are left out and the others are numbered anew. `weight` is what the question gives each of
    them times its rarity in the text. `terms_asked` and `weight_asked` are of the whole question, whole identifiers
    aside; `found` is the share of that weight which occurs at all.
    """

    total_lines: int
    term: Ints
    line: Ints
    times: Ints
    weight: Floats
    terms_asked: int
    weight_asked: float
    found: float


def evidence_of(question: Question, layout: Layout, words: Words) -> Evidence:
    total = len(layout)
    terms = question.terms
    is_name = np.array([term.is_name for term in terms], dtype=np.bool_)
    term, begin = _with_pieces(terms, words, *_finds(terms, is_name, words))
    line = layout.line_of(begin)
    fresh = _fresh(term, line)
    term, line = term[fresh], line[fresh]
    lines_with = np.bincount(term, minlength=len(terms))
    occurs = lines_with > 0
    asked = np.array([term.weight for term in terms], dtype=np.float64)
    rarity = np.log1p((total - lines_with + 0.5) / (lines_with + 0.5)) / np.log1p(total + 1.0)
    plain = asked * ~is_name
    return Evidence(
        total_lines=total,
        term=(np.cumsum(occurs) - 1)[term],
        line=line,
        times=np.append(fresh[1:], begin.size)[: fresh.size] - fresh,
        weight=np.rint((asked * rarity)[occurs] / _GRAIN) * _GRAIN,
        terms_asked=int((~is_name).sum()),
        weight_asked=float(plain.sum()),
        found=float(plain[occurs].sum() / plain.sum()) if plain.any() else 0.0,
    )


def _finds(terms: tuple[Term, ...], is_name: Bools, words: Words) -> tuple[Ints, Ints]:
    """Give the terms that are found and where the parts begin that bear them, in order of term and place."""
    found = [_NOWHERE if term.is_piece else words.beginning(term.prefix) for term in terms]
    term = np.repeat(np.arange(len(terms)), [parts.size for parts in found])
    begin, end = words.parts(np.concatenate([_NOWHERE, *found]))
    start = begin.copy()
    names = is_name[term].nonzero()[0]
    start[names], end[names] = words.around(begin[names])
    # Most of what begins like a term is too short or too long to be it.
    bounds = np.array([_sizes(term) for term in terms], dtype=np.int64).reshape(-1, 2)[term]
    sizes = end - start
    fits = ((sizes >= bounds[:, 0]) & (sizes <= bounds[:, 1])).nonzero()[0]
    term, begin = term[fits], begin[fits]
    spelled = words.spelled(start[fits], end[fits])
    says: list[bool] = []
    for asked, count in zip(terms, np.bincount(term, minlength=len(terms)).tolist(), strict=True):
        spellings = spelled[len(says) : len(says) + count]
        says += map(_answers(asked, set(spellings)).__getitem__, spellings)
    said = np.array(says, dtype=np.bool_)
    return term[said], begin[said]


def _with_pieces(terms: tuple[Term, ...], words: Words, term: Ints, begin: Ints) -> tuple[Ints, Ints]:
    pieces = [number for number, each in enumerate(terms) if each.is_piece]
    if not pieces:
        return term, begin
    places = [words.places(terms[number].key) for number in pieces]
    # They come after all other terms, so the order stays.
    term = np.concatenate([term, np.repeat(pieces, [each.size for each in places])])
    return term, np.concatenate([begin, *places])


def _sizes(term: Term) -> tuple[int, int]:
    """Give how many letters there are at least and at most in what is the term."""
    letters = len(term.key)
    if term.is_name:
        return letters, _NO_LIMIT
    return letters, letters + (LONGEST_ENDING if letters >= SHORTEST_STEM else 0)


def _answers(term: Term, spellings: set[str]) -> dict[str, bool]:
    """Tell which spellings are the term."""
    key = term.key
    if term.is_name:
        return {spelling: spelling.replace("_", "").lower() == key for spelling in spellings}
    return {spelling: stem(spelling.lower()) == key for spelling in spellings}


def _fresh(term: Ints, place: Ints) -> Ints:
    """Give where the term or the place is another than before."""
    changes = np.flatnonzero((term[1:] != term[:-1]) | (place[1:] != place[:-1])) + 1
    return np.append(0, changes)[: term.size]


_NOWHERE = np.zeros(0, dtype=np.int64)
