"""What in a text points at the lines a question needs: matches of its terms and, in a log, reports of errors."""

import re

import numpy as np

from tools.kit.records import record
from tools.pruning.engine.question import LONGEST_ENDING, SHORTEST_STEM, Question, Term, stem
from tools.pruning.engine.text_arrays import NO_LIMIT, Bools, Floats, Ints, Lines, Words, mark, mark_codes

# Term weights are multiples of this, so that their sums are exact and do not depend on the order of adding.
_WEIGHT_STEP = 2.0**-40

_ALARMS = ("error", "exception", "traceback", "fatal", "panic", "critical", "segfault", "assertion")
_ALARM = re.compile(r"(?i)^err$|fail(?:ed|ure|ures|s|ing)?$|abort(?:ed|ing)?$|errno|denied$|unreachable$|killed$")
# Every word that is an alarm contains one of these.
_ALARM_PIECES = ("err", *_ALARMS[1:], "fail", "abort", "denied", "unreachable", "killed")
_SUCCESS = re.compile(
    r"\b(?:PASSED|XPASS|XFAIL|SKIPPED)\b|\.\.\. ok\s*$|^\s*(?:--- PASS|ok\s|✓|✔|√|PASS\b)"
    r"|\b(?:0|no) (?:errors?|failures?|failed)\b(?!.*\b[1-9]\d* (?:errors?|fail))"
)
_DETAIL = re.compile(
    r"(?:>|E) {2,}|E$|\s+at \S|\s+File \"|\s*(?:left|right|expected|actual|got|want|received|caused by)\b\s*:?"
    r"|\S+:\d+(?::\d+)?(?::|\)?$)",
    re.IGNORECASE,
)
_BANNER = re.compile(r"([_=*#-])\1{2,} .*\w.* \1{2,}\s*$|_ .*\w.* _\s*$")
# To spare most lines the regular expression.
_OPENS_BANNER = mark_codes("_=*#-")
_DETAIL_REACH = 40
_TAIL_LINES = 12
_LONGEST_LINE = 1000


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


def failure_lines(lines: Lines, words: Words) -> Bools:
    """Mark the lines of a log that report an error. A line that reports success does not, whatever words it has."""
    start, end = words.containing(_ALARM_PIECES)
    spellings = words.spellings(start, end)
    alarms = {word for word in set(spellings) if _is_alarm(word)}
    offsets = start[np.array([word in alarms for word in spellings], dtype=np.bool_)]
    candidates = np.unique(lines.line_of(offsets)).tolist()
    return mark([i for i in candidates if not _SUCCESS.search(lines.line(i), 0, _LONGEST_LINE)], len(lines))


def with_neighbours(is_marked: Bools) -> Bools:
    """Mark also the line before and the line after each marked line."""
    around = is_marked.copy()
    around[:-1] |= is_marked[1:]
    around[1:] |= is_marked[:-1]
    return around


def failure_scores(lines: Lines, is_failure: Bools) -> Floats:
    """Score every line of a log from 0 to 2: high for details and titles near an error, falling with the distance.

    The last lines score, too: a log often ends with its summary.
    """
    total = len(lines)
    failures = np.flatnonzero(is_failure)
    scores: Floats = np.zeros(total)
    scores[max(total - _TAIL_LINES, 0) :] = 0.5
    if failures.size == 0:
        return scores
    numbers = np.arange(total)
    following = failures[np.minimum(np.searchsorted(failures, numbers), failures.size - 1)]
    preceding = failures[np.maximum(np.searchsorted(failures, numbers, side="right") - 1, 0)]
    distance = np.minimum(np.abs(following - numbers), np.abs(numbers - preceding))
    scores = np.maximum(scores, 0.5 * np.exp(-distance / 8.0))
    near = np.flatnonzero(distance <= _DETAIL_REACH)
    scores[lines.matching(_DETAIL, near, _LONGEST_LINE)] = 2.0
    scores[lines.matching(_BANNER, near[_OPENS_BANNER[lines.first[near]]], _LONGEST_LINE)] = 2.0
    return scores


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


def _is_alarm(word: str) -> bool:
    lowered = word.lower()
    return any(alarm in lowered for alarm in _ALARMS) or _ALARM.search(word) is not None
