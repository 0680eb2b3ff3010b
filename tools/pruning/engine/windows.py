"""Sums and means over the lines around each line."""

import numpy as np

from tools.pruning.engine.arrays import Floats


def windowed(row: Floats, reach: int) -> Floats:
    """Sum over the lines from `reach` before to `reach` after; at the edges, over those that exist."""
    total = row.size
    sums = np.zeros(total + 2 * reach + 1)
    np.cumsum(row, out=sums[reach + 1 : reach + 1 + total])
    sums[reach + 1 + total :] = sums[reach + total]
    return sums[2 * reach + 1 :] - sums[:total]


def smoothed(row: Floats, reach: int) -> Floats:
    """Give every line the mean of the lines from `reach` before it to `reach` after it."""
    line = np.arange(row.size)
    lines = np.minimum(line, reach) + np.minimum(line[::-1], reach) + 1
    mean: Floats = windowed(row, reach) / lines
    return mean
