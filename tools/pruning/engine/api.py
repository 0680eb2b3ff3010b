"""From a text and a question to a selection: read the text, score its lines, choose among them."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from tools.pruning.engine.choice import Candidates, choose, choose_fewest, choose_outline, fill_definitions, runs
from tools.pruning.engine.evidence import Evidence, find_evidence, rare_lines
from tools.pruning.engine.features import (
    code_line_features,
    code_question_features,
    docs_line_features,
    docs_question_features,
    window_terms,
)
from tools.pruning.engine.log_lines import read_log
from tools.pruning.engine.question import Question, read_question
from tools.pruning.engine.render import DroppedBlock, DropReason, GaveUp, Selection, SourceType
from tools.pruning.engine.reports import LogReport, describe, mark_lines
from tools.pruning.engine.structure import (
    Structure,
    code_blocks,
    code_structure,
    detect_source_type,
    document_structure,
    ends_of_statements,
    has_small_members,
    no_structure,
    protected_lines,
    quoted_lines,
    units_of,
)
from tools.pruning.engine.text_arrays import Bools, Floats, Ints, LineArray, Words, read_characters, read_lines
from tools.pruning.engine.weights import WeightedKind, Weights, likelihoods, load_weights, score_lines

_REASONS: dict[SourceType, DropReason] = {"code": "accessory", "logs": "routine", "docs": "accessory"}
# The share of the lines that is kept unless the caller names another. A smaller one costs more of what is needed than
# it saves.
_KEEP_SHARES: dict[SourceType, float] = {"code": 0.30, "logs": 0.20, "docs": 0.30}
# Beyond the quota, a part of the text is kept if its share of the worth is at least this many times its share of the
# tokens. This holds for a quota of `_PRICED_AT` of the lines; a smaller quota has a higher price. The price of logs
# is high because the errors of a log are kept at any price. Chosen so that, of the lines that real questions need,
# four in five of code and six in seven of documents are kept.
_PRICES: dict[SourceType, float] = {"code": 0.90, "logs": 6.0, "docs": 0.75}
_PRICED_AT = 0.30
_SMALLEST_QUOTA = 0.05
# The cost of a gap, in markers. A piece of code is of little use without the lines around it; a line of a log is of
# some, and a paragraph stands alone.
_GAP_MARKERS: dict[SourceType, float] = {"code": 2.65, "logs": 1.5, "docs": 1.0}
# The share of the kept tokens that the outline may use: in documents that of the titles, which their readers go by.
_OUTLINE_SHARES: dict[SourceType, float] = {"code": 0.10, "docs": 0.15}
# Of a longer log the lines that say most are kept, and no share: a reader of thousands of warnings reads none.
_MOST_LOG_LINES = 400
_LOG_REACH = 2
_LOG_FLOOR = 0.02
# Titles of reports that fit a question alike, and how many may before none of them is meant.
_SAME_FIT = 1e-6
_MOST_NAMED = 3
# Several questions about one file are common, and reading a text is more than half of the work.
_CACHED_TEXTS = 4
_CACHED_CHARS = 400_000


class ParsedText(Struct, frozen=True):
    """What is known of a text without a question. Treat it as read-only: it is cached.

    `header` gives every line the header that it is of little use without, or -1, and `unit` the first line of its
    unit. `protected` marks the lines that are always kept. `features` are the line features of code or documents; for
    logs they are the failure scores. `collapsed` marks the lines of the `reports` of failed tests for which an earlier
    one stands, and `tells` the lines of any report that say what went wrong.
    """

    source_type: SourceType
    lines: LineArray
    words: Words
    structure: Structure
    header: Ints
    unit: Ints
    features: Floats
    protected: Bools
    reports: tuple[LogReport, ...]
    collapsed: Bools
    tells: Bools
    weighs_headers: bool


def select(
    text: str,
    question: str,
    *,
    source_type: SourceType | None,
    max_prune_ratio: float | None,
    min_keep_lines: int,
    is_over: Callable[[], bool],
    is_output: bool = False,
    collapses: bool = False,
    weights: dict[WeightedKind, Weights] | None = None,
) -> Selection:
    """Do what `prune` promises, with other weights if they are given. `GaveUp` is raised once `is_over` is true."""

    def check() -> None:
        if is_over():
            raise GaveUp("the deadline passed while pruning")

    check()
    parsed = parse_text(text, source_type, is_output=is_output, collapses=collapses)
    lines, kind = parsed.lines, parsed.source_type
    total = len(lines)
    # The empty string after a final newline is kept and not counted, so that the newline survives every ratio.
    counted = total - 1 if lines.ends_in_newline else total
    ratio = 1.0 - _KEEP_SHARES[kind] if max_prune_ratio is None else max_prune_ratio
    quota = max(counted - int(ratio * counted + 1e-9), min_keep_lines)
    if max_prune_ratio is None:
        # A failure that another one stands for is no part of what a share is kept of.
        quota = max(quota - int((1.0 - ratio) * np.count_nonzero(parsed.collapsed)), min_keep_lines)
        if kind == "logs" and collapses:
            quota = min(quota, max(_MOST_LOG_LINES, min_keep_lines))
    if min_keep_lines > counted:
        return Selection(dropped=(), total_lines=total, source_type=kind, warnings=("constraints_unmet",))
    if quota >= counted:
        return Selection(dropped=(), total_lines=total, source_type=kind)
    check()
    asked = read_question(question)
    evidence = evidence_in(parsed, asked)
    if evidence.share_found == 0 and kind != "logs":
        # Nothing tells where to look. Dropping a line that is needed costs more than keeping many that are not.
        return Selection(dropped=(), total_lines=total, source_type=kind, has_matched=False)
    check()
    worth = _worth(parsed, asked, evidence, weights or load_weights())
    must_keep = parsed.protected | (rare_lines(evidence) & ~parsed.collapsed)
    named = _named(parsed.reports, evidence)
    must_keep[[line for report in named for line in report.opening]] = True
    must_keep |= mark_lines(named, total) & parsed.tells
    must_keep[counted:] = True
    if kind in _OUTLINE_SHARES:
        budget_tokens = _OUTLINE_SHARES[kind] * float(lines.tokens.sum()) * quota / counted
        must_keep |= choose_outline(parsed.structure, lines.tokens, worth, budget_tokens=budget_tokens)
    check()
    candidates = Candidates(
        worth=worth,
        tokens=lines.tokens,
        must_keep=must_keep,
        unit=parsed.unit,
        header=parsed.header,
        weighs_headers=parsed.weighs_headers,
    )
    price = _PRICES[kind] * _PRICED_AT * counted / max(quota, _SMALLEST_QUOTA * counted)
    quota += total - counted
    kept = choose(candidates, quota=quota, top_price=price, gap_markers=_GAP_MARKERS[kind], check=check)
    if kind == "code":
        kept |= ends_of_statements(kept, lines)
        kept = fill_definitions(kept, parsed.structure, lines.tokens)
    if max_prune_ratio is not None and kept.all():
        # No gap of so short a text is worth its marker, and yet the caller has said how much to drop.
        kept = choose_fewest(candidates, quota)
    dropped = _blocks_to_drop(kept, _REASONS[kind], lines, parsed.reports)
    return Selection(dropped=dropped, total_lines=total, source_type=kind)


def parse_text(
    text: str, source_type: SourceType | None, *, is_output: bool = False, collapses: bool = False
) -> ParsedText:
    """Read a text as `source_type`, or as what it looks like. The last few texts are cached."""
    # Comparing with a few texts is faster than hashing one.
    for cached, hints, parsed in [*_cache]:
        if hints == (source_type, is_output, collapses) and cached == text:
            return parsed
    parsed = _parse(text, source_type, is_output, collapses)
    if len(text) <= _CACHED_CHARS:
        _cache.append((text, (source_type, is_output, collapses), parsed))
    return parsed


def evidence_in(parsed: ParsedText, question: Question) -> Evidence:
    """What the question finds in a text. Kin count in code only: names are abbreviated there, and prose is not."""
    return find_evidence(question, parsed.lines, parsed.words, with_kin=parsed.source_type == "code")


def question_features(parsed: ParsedText, evidence: Evidence) -> Floats:
    """The question features of a program or a document."""
    features = docs_question_features if parsed.source_type == "docs" else code_question_features
    return features(evidence, parsed.structure)


def _parse(text: str, source_type: SourceType | None, is_output: bool, collapses: bool) -> ParsedText:
    characters = read_characters(text)
    lines = read_lines(text, characters)
    words = Words(text, characters)
    is_quoted = quoted_lines(lines)
    kind = source_type or detect_source_type(lines, is_quoted, is_output=is_output)
    blocks = code_blocks(lines) if kind == "docs" else []
    unit = units_of(len(lines), blocks)
    protected = protected_lines(lines)
    reports: tuple[LogReport, ...] = ()
    tells = np.zeros(len(lines), dtype=np.bool_)
    if kind == "code":
        structure = code_structure(lines, is_quoted)
        features = code_line_features(lines, structure)
    elif kind == "docs":
        structure = document_structure(lines, blocks)
        features = docs_line_features(lines, structure, unit)
    else:
        structure = no_structure(len(lines))
        log = read_log(lines, words, keeps_repeated=not collapses)
        features, reports, tells = log.scores, log.reports, log.tells
        protected |= log.is_key
        for report in reports:
            if report.is_short:
                unit[report.first : report.last + 1] = report.first
    return ParsedText(
        source_type=kind,
        lines=lines,
        words=words,
        structure=structure,
        header=np.where(structure.is_header, structure.parent, structure.scope),
        unit=unit,
        features=features,
        protected=protected,
        reports=reports,
        tells=tells,
        # Where functions are short, the price of their headers keeps out what is needed.
        weighs_headers=kind == "code" and not has_small_members(lines, structure),
        collapsed=mark_lines((each for each in reports if each.is_repeated and each.is_failure), len(lines)),
    )


def _worth(parsed: ParsedText, question: Question, evidence: Evidence, weights: dict[WeightedKind, Weights]) -> Floats:
    """Each line's share of what the question needs; the shares sum to 1."""
    if parsed.source_type == "logs":
        (terms,) = window_terms(evidence, (_LOG_REACH,))
        worth = _LOG_FLOOR + parsed.features + terms / max(terms.max(), 1e-9)
        shares: Floats = worth / worth.sum()
        return shares
    is_wanted_comment = parsed.structure.is_comment if question.is_about_comments else None
    features = question_features(parsed, evidence)
    return likelihoods(score_lines(weights[parsed.source_type], parsed.features, features, is_wanted_comment))


def _named(reports: Sequence[LogReport], evidence: Evidence) -> list[LogReport]:
    """The reports whose title fits the question better than nearly all others: who names a test wants to see it.

    The title stands in a summary, too, and each of the two is looked for by itself.
    """
    found: list[LogReport] = []
    for is_line in (False, True):
        candidates = [report for report in reports if (report.first == report.last) is is_line]
        number_of = np.full(evidence.total_lines, -1, dtype=np.int64)
        for number, report in enumerate(candidates):
            number_of[report.first : report.title + 1] = number
        is_title = (number_of[evidence.line] >= 0) & ~evidence.is_kin[evidence.term]
        at, term = number_of[evidence.line[is_title]], evidence.term[is_title]
        fit = np.bincount(at, evidence.weight[term], len(candidates))
        best = np.flatnonzero(fit >= max(fit.max(initial=0.0) * (1 - _SAME_FIT), _SAME_FIT))
        found += [candidates[number] for number in best.tolist()] if best.size <= _MOST_NAMED else []
    return found


def _blocks_to_drop(
    kept: Bools, reason: DropReason, lines: LineArray, reports: Sequence[LogReport]
) -> tuple[DroppedBlock, ...]:
    starts, lengths = runs(kept)
    is_dropped = ~kept[starts]
    first = starts[is_dropped]
    last = first + lengths[is_dropped] - 1
    offsets = lines.start[first].tolist(), np.minimum(lines.end[last] + 1, len(lines.text)).tolist()
    repeated = [report for report in reports if report.is_repeated]
    heads = [report.first for report in repeated]
    blocks: list[DroppedBlock] = []
    for start, end, start_char, end_char in zip(first.tolist(), last.tolist(), *offsets, strict=True):
        inside = repeated[bisect_left(heads, start) : bisect_right(heads, end)]
        note = describe(inside) if len(inside) > 1 else ""
        blocks.append(DroppedBlock(start + 1, end + 1, reason, start_char, end_char, note))
    return tuple(blocks)


_cache: deque[tuple[str, tuple[SourceType | None, bool, bool], ParsedText]] = deque(maxlen=_CACHED_TEXTS)
