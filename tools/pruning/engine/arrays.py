"""The kinds of arrays that the engine works with."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[np.uint8]


def stacked(rows: Sequence[Floats | Bools]) -> Floats:
    """Put rows of one length below each other."""
    table = np.empty((len(rows), rows[0].size))
    for place, row in zip(table, rows, strict=True):
        place[:] = row
    return table
