"""Which lines to keep, given what each is worth and what it costs.

Keeping a line costs its tokens; every cut costs a marker. For one price per token the best set of lines is found
exactly, as a path through two states (keep, drop) with a toll on leaving the first. The price is then lowered
until enough lines are kept. Lines that must stay, headers around kept lines and units that are kept whole or
not at all are part of every set that is considered.
"""

from collections.abc import Callable

import numpy as np

from tools.kit.records import record
from tools.pruning.engine.arrays import Bools, Floats, Ints

MARKER_TOKENS = 17
_DISCOUNT = 0.6
_DISCOUNTS = 12
_MARGIN = 0.1
_ALWAYS = 1e6
_SHORT_GAP = 1
# So many runs are looked at one by one faster than they are joined.
_FEW_RUNS = 100


@record
class Candidates:
    """`worth` is each line's share of what the question needs and sums to at most 1; `tokens` is its cost.

    `unit` gives every line the first line of its unit. `header` gives every line the header it may not be kept
    without, or -1.
    """

    worth: Floats
    tokens: Ints
    must_keep: Bools
    unit: Ints
    header: Ints


def choose(
    candidates: Candidates, *, quota: int, top_price: float, marker_dearness: float, check: Callable[[], None]
) -> Bools:
    """Keep at least `quota` lines: the best set at `top_price`, or at about the highest price that keeps enough.

    A cut is charged `marker_dearness` times the tokens of its marker.
    """
    total = candidates.worth.size
    text_tokens = max(int(candidates.tokens.sum()), 1)
    cost = candidates.tokens / text_tokens
    toll = marker_dearness * MARKER_TOKENS / text_tokens
    starts = (candidates.unit == np.arange(total)).nonzero()[0]

    def kept_at(price: float) -> tuple[Bools, int]:
        check()
        gain = candidates.worth - price * cost
        np.putmask(gain, candidates.must_keep, _ALWAYS)
        by_unit = _best_path(np.add.reduceat(gain, starts), price * toll)
        kept = _completed(np.repeat(by_unit, lengths_of(starts, total)), candidates)
        return kept, int(np.count_nonzero(kept))

    few, too_few = kept_at(top_price)
    if too_few >= quota:
        return few
    high = low = top_price
    enough, many = np.ones(total, dtype=np.bool_), total
    for _ in range(_DISCOUNTS):
        low *= _DISCOUNT
        attempt, count = kept_at(low)
        if count >= quota:
            enough, many = attempt, count
            break
        high, few, too_few = low, attempt, count
    # Where the right price would be if the number of lines grew evenly as it falls. To come nearer than this gains
    # nothing: the rest is made up line by line.
    share = min(max((quota - too_few) / max(many - too_few, 1), _MARGIN), 1 - _MARGIN)
    attempt, count = kept_at(high * (low / high) ** share)
    if count >= quota:
        enough = attempt
    else:
        few = attempt
    return _topped_up(few, enough, quota, candidates)


def with_headers(kept: Bools, header: Ints) -> Bools:
    """Add the headers of the kept lines, and the headers of those."""
    # With a place for the lines that have none: a header of -1.
    complete = np.ones(kept.size + 1, dtype=np.bool_)
    complete[:-1] = kept
    waiting = header[kept]
    while waiting.size:
        waiting = waiting[~complete[waiting]]
        complete[waiting] = True
        waiting = header[waiting]
    return complete[:-1]


def runs(kept: Bools) -> tuple[Ints, Ints]:
    """Give the first line of each run of kept or of dropped lines, and the length of each run."""
    is_first = np.ones(kept.size, dtype=np.bool_)
    np.not_equal(kept[1:], kept[:-1], out=is_first[1:])
    starts: Ints = is_first.nonzero()[0]
    return starts, lengths_of(starts, kept.size)


def lengths_of(starts: Ints, total: int) -> Ints:
    """Give how far it is from each start to the next one, and from the last to the end."""
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1] = total - starts[-1]
    return lengths


def _best_path(gain: Floats, toll: float) -> Bools:
    """Maximise the gain of what is kept less a toll per run of what is dropped.

    Neighbours of one sign are decided together: within such a run there is nothing to gain by changing state. What
    keeping is ahead of dropping after each run follows from what it was before: more than the toll is worth no more
    than the toll, since dropping can be taken up at that price, and less than nothing is worth nothing.
    """
    starts, _ = runs(gain > 0)
    starts, gains = _joined(starts, np.add.reduceat(gain, starts), toll)
    # To begin with a gap is to pay for one.
    ahead = toll
    leads: list[float] = []
    for step in gains.tolist():
        ahead = (0.0 if ahead < 0.0 else toll if ahead > toll else ahead) + step
        leads.append(ahead)
    # Between nothing and the toll a run has the state of the next one; the last is kept if that is ahead at all.
    is_kept = ahead >= 0.0
    states: list[bool] = []
    for lead in reversed(leads):
        is_kept = is_kept if 0.0 <= lead <= toll else lead > toll
        states.append(is_kept)
    return np.repeat(np.array(states[::-1]), lengths_of(starts, gain.size))


def _joined(starts: Ints, gains: Floats, toll: float) -> tuple[Ints, Floats]:
    """Join every run that weighs less than the toll and than both its neighbours with those: it shares their state.

    In another state than theirs it could only lose: it has less to give than a gap costs, and less than either
    neighbour has where the border between keeping and dropping moves past both.
    """
    while gains.size > _FEW_RUNS:
        weight = np.abs(gains)
        inner = weight[1:-1]
        is_least = inner <= toll
        is_least &= inner <= weight[:-2]
        is_least &= inner < weight[2:]
        is_start = np.ones(gains.size, dtype=np.bool_)
        is_start[1:-1] = ~is_least
        is_start[2:] &= is_start[1:-1]
        places = is_start.nonzero()[0]
        if places.size == gains.size:
            break
        starts, gains = starts[places], np.add.reduceat(gains, places)
    return starts, gains


def _completed(kept: Bools, candidates: Candidates) -> Bools:
    return _bridged(with_headers(kept, candidates.header), candidates.tokens)


def _topped_up(few: Bools, enough: Bools, quota: int, candidates: Candidates) -> Bools:
    """Add to `few` the best of what `enough` has more, and stop at the quota.

    Where the worth of lines is flat, no price separates them and the two sets lie far apart.
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
        taken = min(length, missing)
        first = start if start > 0 and few[start - 1] else start + length - taken
        kept[first : first + taken] = True
        missing -= taken
    whole_units = np.zeros_like(kept)
    whole_units[candidates.unit[kept]] = True
    return _completed(whole_units[candidates.unit], candidates)


def _bridged(kept: Bools, tokens: Ints) -> Bools:
    """Keep gaps that are no dearer than the marker that would replace them, and gaps of a single line."""
    starts, lengths = runs(kept)
    stays = kept[starts]
    stays |= np.add.reduceat(tokens, starts) <= MARKER_TOKENS
    stays |= lengths <= _SHORT_GAP
    return np.repeat(stays, lengths)
