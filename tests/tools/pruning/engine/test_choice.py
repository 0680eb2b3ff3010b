"""Which lines are chosen: the best set there is at a price, and as many lines as are asked for."""

from itertools import product

import numpy as np
import pytest

from tools.pruning.engine.choice import MARKER_TOKENS, Candidates, choose, fill_definitions
from tools.pruning.engine.structure import Structure

LINES = 11
GAP_MARKERS = 2.65


def candidates(seed: int) -> Candidates:
    """Lines of chance, each long enough that no gap is cheaper to keep than to mark."""
    chance = np.random.default_rng(seed)
    worth = chance.random(LINES) ** 4
    return Candidates(
        worth=worth / worth.sum(),
        tokens=chance.integers(MARKER_TOKENS + 1, 4 * MARKER_TOKENS, LINES),
        must_keep=np.zeros(LINES, dtype=np.bool_),
        unit=np.arange(LINES),
        header=np.full(LINES, -1),
    )


def value(kept: tuple[bool, ...], given: Candidates, price: float) -> float:
    """What a set is worth, less its tokens and its markers at this price. A marker costs more than its tokens."""
    share = 1 / given.tokens.sum()
    gaps = sum(not here and (i == 0 or kept[i - 1]) for i, here in enumerate(kept))
    gain = sum(given.worth[i] - price * given.tokens[i] * share for i, here in enumerate(kept) if here)
    return float(gain - price * GAP_MARKERS * MARKER_TOKENS * share * gaps)


@pytest.mark.parametrize("seed", range(12))
def test_no_other_set_of_lines_is_better_at_the_price(seed: int) -> None:
    given = candidates(seed)
    kept = tuple(choose(given, quota=0, top_price=1.2, gap_markers=GAP_MARKERS, check=lambda: None).tolist())
    # A single line between two kept ones is never marked, so sets with such a gap are not to be had.
    best = max(
        (each for each in product((False, True), repeat=LINES) if not _has_short_gap(each)),
        key=lambda each: value(each, given, 1.2),
    )
    assert value(kept, given, 1.2) >= value(best, given, 1.2) - 1e-9


@pytest.mark.parametrize("gap_markers", [0.5, GAP_MARKERS, 12.0])
def test_of_many_lines_no_other_set_is_better_either(gap_markers: float) -> None:
    pairs = 1_500
    chance = np.random.default_rng(5)
    worth = np.repeat(chance.random(pairs) ** 4, 2)
    given = Candidates(
        worth=worth / worth.sum(),
        tokens=chance.integers(MARKER_TOKENS + 1, 4 * MARKER_TOKENS, 2 * pairs),
        must_keep=np.zeros(2 * pairs, dtype=np.bool_),
        # No gap is of a single line, and such a gap would not be marked.
        unit=np.arange(2 * pairs) // 2 * 2,
        header=np.full(2 * pairs, -1),
    )
    kept = choose(given, quota=0, top_price=1.2, gap_markers=gap_markers, check=lambda: None)
    share = 1 / given.tokens.sum()
    toll = 1.2 * gap_markers * MARKER_TOKENS * share
    gains = given.worth - 1.2 * given.tokens * share
    keeping, dropping = 0.0, -toll
    for gain in (gains[0::2] + gains[1::2]).tolist():
        keeping, dropping = max(keeping, dropping) + gain, max(dropping, keeping - toll)
    gaps = np.count_nonzero(np.diff(np.append(True, kept).astype(np.int8)) < 0)
    assert 0 < kept.sum() < kept.size
    assert gains[kept].sum() - toll * gaps == pytest.approx(max(keeping, dropping))


@pytest.mark.parametrize("quota", range(1, LINES + 1))
def test_as_many_lines_are_kept_as_are_asked_for(quota: int) -> None:
    kept = choose(candidates(quota), quota=quota, top_price=5.0, gap_markers=GAP_MARKERS, check=lambda: None)
    assert quota <= kept.sum() <= quota + 2


@pytest.mark.parametrize(("worth_of_piece", "is_kept"), [(0.14, False), (0.24, True)])
def test_a_piece_of_a_definition_is_kept_if_it_is_worth_its_header_too(worth_of_piece: float, is_kept: bool) -> None:
    worth = np.zeros(40)
    worth[20:22] = worth_of_piece / 2
    worth[:4] = (1 - worth_of_piece) / 4
    header = np.full(40, -1)
    header[11:31] = 10
    given = Candidates(
        worth=worth,
        tokens=np.full(40, MARKER_TOKENS + 1),
        must_keep=np.zeros(40, dtype=np.bool_),
        unit=np.arange(40),
        header=header,
    )
    kept = choose(given, quota=0, top_price=1.0, gap_markers=GAP_MARKERS, check=lambda: None)
    assert np.flatnonzero(kept).tolist() == [0, 1, 2, 3, *([10, 20, 21] if is_kept else [])]
    # Without a header, both are worth their own tokens and a marker.
    alone = Candidates(worth, given.tokens, given.must_keep, given.unit, header=np.full(40, -1))
    kept = choose(alone, quota=0, top_price=1.0, gap_markers=GAP_MARKERS, check=lambda: None)
    assert np.flatnonzero(kept).tolist() == [0, 1, 2, 3, 20, 21]


@pytest.mark.parametrize(("kept_lines", "is_filled"), [(6, False), (8, True)])
def test_a_definition_of_which_most_is_kept_is_kept_whole(kept_lines: int, is_filled: bool) -> None:
    scope = np.full(40, -1)
    scope[10:20] = 10
    scope[25:40] = 25
    nothing = np.zeros(40, dtype=np.bool_)
    structure = Structure(is_header=nothing, is_import=nothing, is_comment=nothing, scope=scope, parent=scope)
    kept = np.zeros(40, dtype=np.bool_)
    kept[10 : 10 + kept_lines] = kept[25:30] = True
    filled = fill_definitions(kept, structure, np.full(40, MARKER_TOKENS + 1))
    assert filled[10:20].all() == is_filled
    assert filled[20:].tolist() == kept[20:].tolist()


def _has_short_gap(kept: tuple[bool, ...]) -> bool:
    padded = (True, *kept, True)
    return any(padded[i : i + 3] == (True, False, True) for i in range(LINES))
