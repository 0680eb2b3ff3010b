"""Places in a text as a bitmap: its answers are those of a plain search, on every kind of mask and at every place."""

import numpy as np
import pytest

from tools.pruning.engine.marks import Marks

SIZES = (1, 63, 64, 65, 200)


def masks() -> list[np.ndarray]:
    chance = np.random.default_rng(3)
    return [chance.random(size) < share for size in SIZES for share in (0.0, 0.01, 0.5, 1.0)]


@pytest.mark.parametrize("mask", masks())
def test_every_place_is_answered_as_a_search_would(mask: np.ndarray) -> None:
    marks = Marks(mask)
    every = np.arange(mask.size + 1)
    set_at = np.flatnonzero(mask).tolist()
    assert marks.places().tolist() == set_at
    assert marks.before(every).tolist() == [sum(place < offset for place in set_at) for offset in every]
    assert marks.first_from(every).tolist() == [
        min((place for place in set_at if place >= offset), default=mask.size) for offset in every
    ]
    assert marks.last_before(every).tolist() == [
        max((place for place in set_at if place < offset), default=-1) for offset in every
    ]
