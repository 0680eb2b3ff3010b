"""What in a text points at the lines a question needs: matches of its terms, and of words that are kin to them."""

from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from tools.pruning.engine.question import KIN_LETTERS, LONGEST_ENDING, SHORTEST_STEM, Question, Term, are_kin, stem
from tools.pruning.engine.text_arrays import NO_LIMIT, Bools, Floats, Ints, LineArray, Words, mark

# Term weights are multiples of this, so that their sums are exact and do not depend on the order of adding.
_WEIGHT_STEP = 2.0**-40
# A term on at most so many lines is rare.
_RARE_LINES = 3
# A word that is kin to a term often means the same, and often does not.
_KIN_WEIGHT = 0.5
_NO_MATCH = -1


class Evidence(Struct, frozen=True):
    """The k-th match: term `term[k]` stands `times[k]` times on line `line[k]`. Matches are sorted by term and line.

    Only terms that occur are numbered. The kin of a term are a term of their own; `is_kin` marks those. `weight` is the
    weight of each term in the question times its inverse document frequency (IDF), with lines as documents.
    `terms_asked`, `weight_asked` and `share_found` are about all stems of the question; `share_found` is the share of
    their weight that occurs in the text. Kin do not count for these three.
    """

    total_lines: int
    term: Ints
    line: Ints
    times: Ints
    weight: Floats
    is_kin: Bools
    terms_asked: int
    weight_asked: float
    share_found: float


def find_evidence(question: Question, lines: LineArray, words: Words, *, with_kin: bool) -> Evidence:
    """Find the terms of a question in a text, and the words that are kin to them if these are wanted."""
    total = len(lines)
    terms = question.terms
    is_name = np.array([term.is_name for term in terms], dtype=np.bool_)
    term, offset = _match(terms, is_name, words, with_kin)
    line = lines.line_of(offset)
    # Several matches of one term on one line become one entry.
    is_new = np.ones(term.size, dtype=np.bool_)
    is_new[1:] = (term[1:] != term[:-1]) | (line[1:] != line[:-1])
    first = np.flatnonzero(is_new)
    term, line = term[first], line[first]
    lines_with = np.bincount(term, minlength=2 * len(terms))
    occurs = lines_with > 0
    asked = np.array([term.weight for term in terms], dtype=np.float64)
    weight = np.concatenate((asked, asked * _KIN_WEIGHT))
    # The IDF of BM25, as a share of what a term on no line would have.
    idf = np.log1p((total - lines_with + 0.5) / (lines_with + 0.5)) / np.log1p(total + 1.0)
    stem_weight = asked * ~is_name
    return Evidence(
        total_lines=total,
        term=(np.cumsum(occurs) - 1)[term],
        line=line,
        times=np.append(first[1:], is_new.size)[: first.size] - first,
        weight=np.rint((weight * idf)[occurs] / _WEIGHT_STEP) * _WEIGHT_STEP,
        is_kin=np.flatnonzero(occurs) >= len(terms),
        terms_asked=int((~is_name).sum()),
        weight_asked=float(stem_weight.sum()),
        share_found=float(stem_weight[occurs[: len(terms)]].sum() / stem_weight.sum()) if stem_weight.any() else 0.0,
    )


def rare_lines(evidence: Evidence) -> Bools:
    """Mark the lines with a term that hardly any other line has: who names a thing wants to see it, as with grep."""
    lines_with = np.bincount(evidence.term, minlength=1)
    is_rare = (lines_with[evidence.term] <= _RARE_LINES) & ~evidence.is_kin[evidence.term]
    return mark(evidence.line[is_rare], evidence.total_lines)


def _match(terms: tuple[Term, ...], is_name: Bools, words: Words, with_kin: bool) -> tuple[Ints, Ints]:
    """The terms that match and the offsets where they do, sorted by term and offset.

    The kin of a term have its number plus the number of terms.
    """
    bigrams = [number for number, term in enumerate(terms) if term.is_bigram]
    matches = [words.find(terms[number].key) for number in bigrams]
    term, offset = _match_words(terms, is_name, words, with_kin)
    bigram_term = np.repeat(np.array(bigrams, dtype=np.int64), [each.size for each in matches])
    term, offset = np.concatenate([term, bigram_term]), np.concatenate([offset, *matches])
    order = np.argsort(term, kind="stable")
    return term[order], offset[order]


def _match_words(terms: tuple[Term, ...], is_name: Bools, words: Words, with_kin: bool) -> tuple[Ints, Ints]:
    """The same for all terms but bigrams, in any order of terms: first by prefix and length, then by spelling."""
    nowhere = np.zeros(0, dtype=np.int64)
    candidates = [nowhere if term.is_bigram else words.starting_with(term.prefix) for term in terms]
    term = np.repeat(np.arange(len(terms)), [parts.size for parts in candidates])
    start, end = words.extents(np.concatenate([nowhere, *candidates]), is_name[term])
    # Most candidates are too short or too long.
    least, greatest = np.array([_length_bounds(term, with_kin) for term in terms], dtype=np.int64).reshape(-1, 2).T
    lengths = end - start
    fits = np.flatnonzero((lengths >= least[term]) & (lengths <= greatest[term]))
    term, start, end = term[fits], start[fits], end[fits]
    spellings = words.spellings(start, end)
    matches: list[int] = []
    counts = np.bincount(term, minlength=len(terms)).tolist()
    for number, (asked, count) in enumerate(zip(terms, counts, strict=True)):
        of_term = spellings[len(matches) : len(matches) + count]
        match_of = dict.fromkeys(of_term, _NO_MATCH)
        if with_kin and _may_have_kin(asked):
            match_of.update(dict.fromkeys(_kin_of(asked, match_of), number + len(terms)))
        match_of.update(dict.fromkeys(_spellings_of(asked, match_of), number))
        matches += map(match_of.__getitem__, of_term)
    matched = np.array(matches, dtype=np.int64)
    is_match = matched != _NO_MATCH
    return matched[is_match], start[is_match]


def _length_bounds(term: Term, with_kin: bool) -> tuple[int, int]:
    """The least and the greatest length of a spelling of the term or, with kin, of its kin."""
    letters = len(term.key)
    if term.is_name:
        return letters, NO_LIMIT
    if with_kin and _may_have_kin(term):
        return KIN_LETTERS, NO_LIMIT
    return letters, letters + (LONGEST_ENDING if letters >= SHORTEST_STEM else 0)


def _spellings_of(term: Term, spellings: Iterable[str]) -> list[str]:
    """Those of the spellings that are the term."""
    key = term.key
    if term.is_name:
        return [spelling for spelling in spellings if spelling.replace("_", "").lower() == key]
    return [spelling for spelling in spellings if stem(spelling.lower()) == key]


def _kin_of(term: Term, spellings: Iterable[str]) -> list[str]:
    """Those of the spellings that are the term or kin to it."""
    return [spelling for spelling in spellings if are_kin(spelling.lower(), term.key)]


def _may_have_kin(term: Term) -> bool:
    return not term.is_name and len(term.key) >= KIN_LETTERS and term.key.isalpha()
