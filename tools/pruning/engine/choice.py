"""Which lines to keep, given what each is worth and what it costs.

Keeping a line costs its tokens; every cut costs a marker. For one price per token the best set of lines is found
exactly, as a path through two states (keep, drop) with a toll on leaving the first. The price is then lowered
until enough lines are kept. Lines that must stay, headers around kept lines and units that are kept whole or
not at all are part of every set that is considered.
"""

from collections.abc import Callable

import numpy as np

from tools.pruning.engine.arrays import Bools, Floats, Ints
from tools.records import record

MARKER_TOKENS = 17
_DISCOUNT = 0.6
_DISCOUNTS = 12
_HALVINGS = 6
_ALWAYS = 1e3
_SHORT_GAP = 1


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
    """Keep at least `quota` lines: the best set at `top_price`, or at the highest price that keeps enough.

    A cut is charged `marker_dearness` times the tokens of its marker.
    """
    total = candidates.worth.size
    text_tokens = max(int(candidates.tokens.sum()), 1)
    cost = candidates.tokens / text_tokens
    toll = marker_dearness * MARKER_TOKENS / text_tokens
    starts = np.flatnonzero(candidates.unit == np.arange(total))

    def kept_at(price: float) -> Bools:
        check()
        gain = np.where(candidates.must_keep, _ALWAYS, candidates.worth - price * cost)
        by_unit = _best_path(np.add.reduceat(gain, starts), price * toll)
        kept = np.repeat(by_unit, np.diff(np.append(starts, total)))
        return _completed(kept | candidates.must_keep, candidates)

    few = kept_at(top_price)
    if few.sum() >= quota:
        return few
    high = low = top_price
    enough = np.ones(total, dtype=np.bool_)
    for _ in range(_DISCOUNTS):
        low *= _DISCOUNT
        attempt = kept_at(low)
        if attempt.sum() >= quota:
            enough = attempt
            break
        high, few = low, attempt
    for _ in range(_HALVINGS):
        price = (low + high) / 2
        attempt = kept_at(price)
        if attempt.sum() >= quota:
            low, enough = price, attempt
        else:
            high, few = price, attempt
    return _topped_up(few, enough, quota, candidates)


def with_headers(kept: Bools, header: Ints) -> Bools:
    """Add the headers of the kept lines, and the headers of those."""
    # With a place for the lines that have none: a header of -1.
    complete = np.append(kept, True)
    waiting = header[kept]
    while waiting.size:
        waiting = waiting[~complete[waiting]]
        complete[waiting] = True
        waiting = header[waiting]
    return complete[:-1]


def runs(kept: Bools) -> tuple[Ints, Ints]:
    """Give the first line of each run of kept or of dropped lines, and the length of each run."""
    changes = np.flatnonzero(kept[1:] != kept[:-1]) + 1
    starts = np.concatenate(([0], changes))
    return starts, np.concatenate((changes, [kept.size])) - starts


def _best_path(gain: Floats, toll: float) -> Bools:
    """Maximise the gain of what is kept less a toll per run of what is dropped.

    Neighbours of one sign are decided together: within such a run there is nothing to gain by changing state. What
    keeping is ahead of dropping after each run follows from what it was before: more than the toll is worth no more
    than the toll, since dropping can be taken up at that price, and less than nothing is worth nothing.
    """
    starts, lengths = runs(gain > 0)
    # To begin with a gap is to pay for one.
    ahead = toll
    leads: list[float] = []
    for step in np.add.reduceat(gain, starts).tolist():
        ahead = (0.0 if ahead < 0.0 else toll if ahead > toll else ahead) + step
        leads.append(ahead)
    lead = np.array(leads)
    # Between nothing and the toll a run has the state of the next one; the last is kept if that is ahead at all.
    is_settled = (lead < 0.0) | (lead > toll)
    is_settled[-1] = True
    settled = np.flatnonzero(is_settled)
    following = settled[np.searchsorted(settled, np.arange(lead.size))]
    return np.repeat(lead[following] >= 0.0, lengths)


def _completed(kept: Bools, candidates: Candidates) -> Bools:
    return _bridged(with_headers(kept, candidates.header), candidates.tokens)


def _topped_up(few: Bools, enough: Bools, quota: int, candidates: Candidates) -> Bools:
    """Add to `few` the best of what `enough` has more, and stop at the quota.

    Where the worth of lines is flat, no price separates them and the two sets lie far apart.
    """
    kept = few.copy()
    starts, lengths = runs(enough & ~few)
    is_extra = (enough & ~few)[starts]
    starts, lengths = starts[is_extra], lengths[is_extra]
    worth = np.concatenate(([0.0], np.cumsum(candidates.worth)))
    cost = np.concatenate(([0], np.cumsum(candidates.tokens + 1)))
    density = (worth[starts + lengths] - worth[starts]) / (cost[starts + lengths] - cost[starts])
    missing = quota - int(few.sum())
    for run in np.argsort(-density, kind="stable").tolist():
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
    is_cheap = np.add.reduceat(tokens, starts) <= MARKER_TOKENS
    return np.repeat(kept[starts] | is_cheap | (lengths <= _SHORT_GAP), lengths)
