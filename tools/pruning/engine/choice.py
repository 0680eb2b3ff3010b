"""Which lines to keep, given what each is worth and what it costs.

Keeping a line costs its tokens, and every gap costs a marker. For a given price per token, a two-state Viterbi search
(keep or drop) finds the best set of lines exactly. The price is then lowered until enough lines are kept. Every set
that is considered contains the lines that must stay, the headers around kept lines, and units only as a whole. The
search knows nothing of headers; what it keeps in a definition is dropped again if it is not worth the header, too.
"""

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from tools.pruning.engine.structure import Structure
from tools.pruning.engine.text_arrays import Bools, Floats, Ints

MARKER_TOKENS = 17
_PRICE_STEP = 0.6
_PRICE_STEPS = 12
_MARGIN = 0.1
_MUST_KEEP_GAIN = 1e6
_SHORT_GAP = 1
# A definition is kept whole from this share of its lines on, unless it is very long.
_MOST_OF_DEFINITION = 0.7
_LONGEST_DEFINITION = 120
# Python walks over so many runs as fast as numpy merges them.
_FEW_RUNS = 100


class Candidates(Struct, frozen=True):
    """`worth` is each line's share of what the question needs; the shares sum to 1. `tokens` is its cost.

    `unit` gives every line the first line of its unit. `header` gives every line the header that must be kept with
    it, or -1.
    """

    worth: Floats
    tokens: Ints
    must_keep: Bools
    unit: Ints
    header: Ints
    # Whether a piece of a definition must be worth its header.
    weighs_headers: bool = True


def choose(
    candidates: Candidates, *, quota: int, top_price: float, gap_markers: float, check: Callable[[], None]
) -> Bools:
    """Keep at least `quota` lines: the best set at `top_price`, or at about the highest price that keeps enough.

    A gap costs `gap_markers` times the tokens of a marker. `check` is called at every step; it may raise.
    """
    total = candidates.worth.size
    text_tokens = max(int(candidates.tokens.sum()), 1)
    cost = candidates.tokens / text_tokens
    gap_cost = gap_markers * MARKER_TOKENS / text_tokens
    starts = np.flatnonzero(candidates.unit == np.arange(total))

    def keep_at(price: float) -> tuple[Bools, int]:
        check()
        gain = candidates.worth - price * cost
        gain[candidates.must_keep] = _MUST_KEEP_GAIN
        kept = best_lines(gain, price)
        if candidates.weighs_headers:
            unpaid = _without_worth_of_header(kept, gain, candidates.header, price * gap_cost)
            if unpaid.size:
                gain[unpaid] = -price * cost[unpaid]
                kept = best_lines(gain, price)
        kept = _complete(kept, candidates)
        return kept, int(np.count_nonzero(kept))

    def best_lines(gain: Floats, price: float) -> Bools:
        by_unit = _best_path(np.add.reduceat(gain, starts), price * gap_cost)
        return np.repeat(by_unit, _lengths(starts, total))

    few, few_count = keep_at(top_price)
    if few_count >= quota:
        return few
    high = low = top_price
    enough, enough_count = np.ones(total, dtype=np.bool_), total
    for _ in range(_PRICE_STEPS):
        low *= _PRICE_STEP
        attempt, count = keep_at(low)
        if count >= quota:
            enough, enough_count = attempt, count
            break
        high, few, few_count = low, attempt, count
    # Interpolate once between the two prices. More steps gain nothing, because the rest is added line by line.
    share = min(max((quota - few_count) / max(enough_count - few_count, 1), _MARGIN), 1 - _MARGIN)
    attempt, count = keep_at(high * (low / high) ** share)
    if count >= quota:
        enough = attempt
    else:
        few = attempt
    return _fill_short_gaps(_top_up(few, enough, quota, candidates), candidates.tokens)


def choose_fewest(candidates: Candidates, quota: int) -> Bools:
    """Keep what must stay, and of the rest the best runs up to the quota: for a text in which no gap is worth its
    marker, and which is to be pruned all the same."""
    few = _add_headers(candidates.must_keep, candidates.header)
    return _top_up(few, np.ones_like(few), quota, candidates)


def fill_definitions(kept: Bools, structure: Structure, tokens: Ints) -> Bools:
    """Keep the rest of the definitions of which most is kept: the end of a function is missed more than it saves.

    Lines of an inner definition count for that alone.
    """
    inside = structure.scope >= 0
    scope = structure.scope[inside]
    size = np.bincount(scope, minlength=kept.size)
    count = np.bincount(scope[kept[inside]], minlength=kept.size)
    is_filled = (count >= _MOST_OF_DEFINITION * size) & (count > 1) & (size <= _LONGEST_DEFINITION)
    filled = kept.copy()
    filled[inside] |= is_filled[scope]
    return _fill_short_gaps(filled, tokens)


def choose_outline(structure: Structure, tokens: Ints, worth: Floats, *, budget_tokens: float) -> Bools:
    """Mark lines to keep for orientation even where nothing matches: imports, then headers, the best first.

    Each header costs a marker besides its tokens, because it stands alone; each block of imports does, but at the top.
    """
    starts, lengths = runs(structure.is_import)
    costs = np.add.reduceat(tokens, starts) + MARKER_TOKENS * (starts > 0)
    is_bought = np.zeros(starts.size, dtype=np.bool_)
    left = budget_tokens
    for run in np.flatnonzero(structure.is_import[starts]).tolist():
        if costs[run] <= left:
            is_bought[run] = True
            left -= costs[run]
    outline = np.repeat(is_bought, lengths)
    headers = np.flatnonzero(structure.is_header)
    ranked = headers[np.argsort(-worth[headers], kind="stable")]
    spent = np.cumsum(tokens[ranked] + MARKER_TOKENS)
    outline[ranked[spent <= left]] = True
    return outline


def runs(mask: Bools) -> tuple[Ints, Ints]:
    """The first index and the length of every run of equal values."""
    is_start = np.ones(mask.size, dtype=np.bool_)
    is_start[1:] = mask[1:] != mask[:-1]
    starts: Ints = is_start.nonzero()[0]
    return starts, _lengths(starts, mask.size)


def _lengths(starts: Ints, total: int) -> Ints:
    lengths = np.empty_like(starts)
    lengths[:-1] = starts[1:] - starts[:-1]
    lengths[-1] = total - starts[-1]
    return lengths


def _best_path(gain: Floats, gap_cost: float) -> Bools:
    """Maximise the gain of what is kept minus a cost per gap: a two-state Viterbi search.

    Neighbours of one sign are decided together, because a change of state within them gains nothing. The lead is how
    far keeping is ahead of dropping. It is clamped to [0, gap_cost] before a gain is added: with a greater lead,
    dropping starts here from the kept state, and with a lead below 0, keeping starts from the dropped state.
    """
    starts, _ = runs(gain > 0)
    starts, gains = _merge_small_runs(starts, np.add.reduceat(gain, starts), gap_cost)
    # A text that begins with a gap pays for it, too.
    lead = gap_cost
    leads: list[float] = []
    for run_gain in gains.tolist():
        lead = (0.0 if lead < 0.0 else gap_cost if lead > gap_cost else lead) + run_gain
        leads.append(lead)
    # Back from the end: a clamped lead decides the state, any other lead leaves the state of the next run.
    is_kept = lead >= 0.0
    states: list[bool] = []
    for lead in reversed(leads):
        is_kept = is_kept if 0.0 <= lead <= gap_cost else lead > gap_cost
        states.append(is_kept)
    return np.repeat(np.array(states[::-1]), _lengths(starts, gain.size))


def _merge_small_runs(starts: Ints, gains: Floats, gap_cost: float) -> tuple[Ints, Floats]:
    """Merge every run with both neighbours if its gain is smaller than theirs and than a gap: all three share a state.

    This leaves the best path as it is, and shortens the loop over a long text to a fraction.
    """
    while gains.size > _FEW_RUNS:
        size = np.abs(gains)
        inner = size[1:-1]
        is_small = (inner <= gap_cost) & (inner <= size[:-2]) & (inner < size[2:])
        is_start = np.ones(gains.size, dtype=np.bool_)
        is_start[1:-1] = ~is_small
        is_start[2:] &= is_start[1:-1]
        places = np.flatnonzero(is_start)
        if places.size == gains.size:
            break
        starts, gains = starts[places], np.add.reduceat(gains, places)
    return starts, gains


def _without_worth_of_header(kept: Bools, gain: Floats, header: Ints, gap_cost: float) -> Ints:
    """The kept lines whose header is not kept and which, all lines of that header together, gain less than it costs.

    A header that stands alone costs a gap besides its tokens, like every run of kept lines.
    """
    lines = np.flatnonzero(kept)
    lines = lines[header[lines] >= 0]
    lines = lines[~kept[header[lines]]]
    headers = header[lines]
    begins_run = np.ones(lines.size, dtype=np.bool_)
    begins_run[1:] = (lines[1:] != lines[:-1] + 1) | (headers[1:] != headers[:-1])
    gains = np.bincount(headers, gain[lines] - gap_cost * begins_run, kept.size) + gain - gap_cost
    unpaid: Ints = lines[gains[headers] < 0]
    return unpaid


def _top_up(few: Bools, enough: Bools, quota: int, candidates: Candidates) -> Bools:
    """Add to `few` the best runs of what `enough` has more, and stop at the quota.

    Where many lines have the same worth, no price separates them, and the two sets are far apart.
    """
    kept = few.copy()
    extra = enough & ~few
    starts, lengths = runs(extra)
    is_extra = extra[starts]
    worth = np.add.reduceat(candidates.worth, starts)[is_extra]
    cost = np.add.reduceat(candidates.tokens, starts)[is_extra]
    starts, lengths = starts[is_extra], lengths[is_extra]
    missing = quota - int(np.count_nonzero(few))
    for run in np.argsort(-worth / (cost + lengths), kind="stable").tolist():
        if missing <= 0:
            break
        start, length = int(starts[run]), int(lengths[run])
        added = min(length, missing)
        first = start if start > 0 and few[start - 1] else start + length - added
        kept[first : first + added] = True
        missing -= added
    has_unit = np.zeros_like(kept)
    has_unit[candidates.unit[kept]] = True
    return _add_headers(has_unit[candidates.unit], candidates.header)


def _complete(kept: Bools, candidates: Candidates) -> Bools:
    return _fill_short_gaps(_add_headers(kept, candidates.header), candidates.tokens)


def _add_headers(kept: Bools, header: Ints) -> Bools:
    """Add the headers of the kept lines, and the headers around those."""
    # With one more entry for lines without a header: -1.
    complete = np.ones(kept.size + 1, dtype=np.bool_)
    complete[:-1] = kept
    added = header[kept]
    while added.size:
        added = added[~complete[added]]
        complete[added] = True
        added = header[added]
    return complete[:-1]


def _fill_short_gaps(kept: Bools, tokens: Ints) -> Bools:
    """Keep gaps of a single line, and gaps that cost no more tokens than their marker."""
    starts, lengths = runs(kept)
    stays = kept[starts] | (np.add.reduceat(tokens, starts) <= MARKER_TOKENS) | (lengths <= _SHORT_GAP)
    return np.repeat(stays, lengths)
