"""How likely each line is to be needed: a weighted sum of its features, read as a likelihood.

The weights are data. `weights.json` says when and on what they were fitted; `make fit` fits them again.
"""

import json
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec import Struct

from tools.pruning.engine.features import (
    CODE_LINE_FEATURES,
    CODE_QUESTION_FEATURES,
    DOCS_LINE_FEATURES,
    DOCS_QUESTION_FEATURES,
    window_mean,
)
from tools.pruning.engine.text_arrays import Bools, Floats

WEIGHTS_FILE = Path(__file__).with_name("weights.json")
WeightedKind = Literal["code", "docs"]
FEATURES: dict[WeightedKind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "code": (CODE_LINE_FEATURES, CODE_QUESTION_FEATURES),
    "docs": (DOCS_LINE_FEATURES, DOCS_QUESTION_FEATURES),
}
# A line is of more use with the lines around it.
_BLUR_REACH = 2


class Weights(Struct, frozen=True):
    """One weight per line feature and one per question feature, in the order of `FEATURES`."""

    line: Floats
    question: Floats
    comment: float = 0.0


# Read once: an update may replace the file under a process that runs.
@cache
def load_weights(path: Path = WEIGHTS_FILE) -> dict[WeightedKind, Weights]:
    """Read a weights file. Raises KeyError if it lacks a feature."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return {
        kind: Weights(
            line=np.array([data[kind][name] for name in line_features]),
            question=np.array([data[kind][name] for name in question_features]),
            comment=data[kind].get("is_comment", 0.0),
        )
        for kind, (line_features, question_features) in FEATURES.items()
    }


def score_lines(weights: Weights, line: Floats, question: Floats, is_wanted_comment: Bools | None = None) -> Floats:
    """The weighted sum of the features. A comment that the question may want is scored as if it were none."""
    by_line = weights.line @ line
    if is_wanted_comment is not None:
        by_line = by_line - weights.comment * is_wanted_comment
    scores: Floats = by_line + weights.question @ question
    return scores


def likelihoods(scores: Floats) -> Floats:
    """Softmax over the lines of a text, smoothed by a window mean. The likelihoods sum to 1."""
    smooth = window_mean(np.exp(scores - scores.max()), _BLUR_REACH)
    shares: Floats = smooth / smooth.sum()
    return shares
