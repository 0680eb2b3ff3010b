"""What in a text points at the lines a question needs: matches of its terms."""

import numpy as np

from tools.kit.records import record
from tools.pruning.engine.question import LONGEST_ENDING, SHORTEST_STEM, Question, Term, stem
from tools.pruning.engine.text_arrays import NO_LIMIT, Bools, Floats, Ints, Lines, Words, mark

# Term weights are multiples of this, so that their sums are exact and do not depend on the order of adding.
_WEIGHT_STEP = 2.0**-40
# A term on at most so many lines is rare.
_RARE_LINES = 3


@record
class Evidence:
    """The k-th match: term `term[k]` stands `times[k]` times on line `line[k]`. Matches are sorted by term and line.

    Only terms that occur are numbered. `weight` is the weight of each of them in the question times its inverse
    document frequency (IDF), with lines as documents. `terms_asked`, `weight_asked` and `share_found` are about all
    stems of the question; `share_found` is the share of their weight that occurs in the text.
    """

    total_lines: int
    term: Ints
    line: Ints
    times: Ints
    weight: Floats
    terms_asked: int
    weight_asked: float
    share_found: float


def find_evidence(question: Question, lines: Lines, words: Words) -> Evidence:
    """Find the terms of a question in a text."""
    total = len(lines)
    terms = question.terms
    is_name = np.array([term.is_name for term in terms], dtype=np.bool_)
    term, offset = _match(terms, is_name, words)
    line = lines.line_of(offset)
    # Several matches of one term on one line become one entry.
    is_new = np.ones(term.size, dtype=np.bool_)
    is_new[1:] = (term[1:] != term[:-1]) | (line[1:] != line[:-1])
    first = np.flatnonzero(is_new)
    term, line = term[first], line[first]
    lines_with = np.bincount(term, minlength=len(terms))
    occurs = lines_with > 0
    asked = np.array([term.weight for term in terms], dtype=np.float64)
    # The IDF of BM25, as a share of what a term on no line would have.
    idf = np.log1p((total - lines_with + 0.5) / (lines_with + 0.5)) / np.log1p(total + 1.0)
    stem_weight = asked * ~is_name
    return Evidence(
        total_lines=total,
        term=(np.cumsum(occurs) - 1)[term],
        line=line,
        times=np.append(first[1:], is_new.size)[: first.size] - first,
        weight=np.rint((asked * idf)[occurs] / _WEIGHT_STEP) * _WEIGHT_STEP,
        terms_asked=int((~is_name).sum()),
        weight_asked=float(stem_weight.sum()),
        share_found=float(stem_weight[occurs].sum() / stem_weight.sum()) if stem_weight.any() else 0.0,
    )


def rare_lines(evidence: Evidence) -> Bools:
    """Mark the lines with a term that hardly any other line has: who names a thing wants to see it, as with grep."""
    lines_with = np.bincount(evidence.term, minlength=1)
    return mark(evidence.line[lines_with[evidence.term] <= _RARE_LINES], evidence.total_lines)


def _match(terms: tuple[Term, ...], is_name: Bools, words: Words) -> tuple[Ints, Ints]:
    """The terms that match and the offsets where they do, sorted by term and offset."""
    # Bigrams are the last terms, so their matches can be appended.
    bigrams = [number for number, term in enumerate(terms) if term.is_bigram]
    matches = [words.find(terms[number].key) for number in bigrams]
    term, offset = _match_words(terms, is_name, words)
    bigram_term = np.repeat(np.array(bigrams, dtype=np.int64), [each.size for each in matches])
    return np.concatenate([term, bigram_term]), np.concatenate([offset, *matches])


def _match_words(terms: tuple[Term, ...], is_name: Bools, words: Words) -> tuple[Ints, Ints]:
    """The same for all terms but bigrams: first by prefix and length, then by spelling."""
    nowhere = np.zeros(0, dtype=np.int64)
    candidates = [nowhere if term.is_bigram else words.starting_with(term.prefix) for term in terms]
    term = np.repeat(np.arange(len(terms)), [parts.size for parts in candidates])
    start, end = words.extents(np.concatenate([nowhere, *candidates]), is_name[term])
    # Most candidates are too short or too long.
    least, greatest = np.array([_length_bounds(term) for term in terms], dtype=np.int64).reshape(-1, 2).T
    lengths = end - start
    fits = np.flatnonzero((lengths >= least[term]) & (lengths <= greatest[term]))
    term, start, end = term[fits], start[fits], end[fits]
    spellings = words.spellings(start, end)
    is_match: list[bool] = []
    for asked, count in zip(terms, np.bincount(term, minlength=len(terms)).tolist(), strict=True):
        of_term = spellings[len(is_match) : len(is_match) + count]
        matching = _spellings_of(asked, set(of_term))
        is_match += map(matching.__contains__, of_term)
    matched = np.array(is_match, dtype=np.bool_)
    return term[matched], start[matched]


def _length_bounds(term: Term) -> tuple[int, int]:
    """The least and the greatest length of a spelling of the term."""
    letters = len(term.key)
    if term.is_name:
        return letters, NO_LIMIT
    return letters, letters + (LONGEST_ENDING if letters >= SHORTEST_STEM else 0)


def _spellings_of(term: Term, spellings: set[str]) -> set[str]:
    """Those of the spellings that are the term."""
    key = term.key
    if term.is_name:
        return {spelling for spelling in spellings if spelling.replace("_", "").lower() == key}
    return {spelling for spelling in spellings if stem(spelling.lower()) == key}
