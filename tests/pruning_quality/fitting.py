"""Fit the weights of the engine: a conditional logit model over the lines of each text, by Newton's method."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np

from tests.pruning_quality.tasks import Task
from tools.pruning.engine.api import evidence_in, parse_text, question_features
from tools.pruning.engine.question import read_question
from tools.pruning.engine.text_arrays import Floats, Ints
from tools.pruning.engine.weights import FEATURES, WEIGHTS_FILE, WeightedKind

_FEWEST_TASKS = 30
_RIDGE = 1e-3
_MOST_STEPS = 50
_SMALLEST_GAIN = 1e-7
_SMALLEST_STEP = 1e-4


@dataclass(frozen=True, slots=True)
class Example:
    """One text: a row of `features` per feature and a column per line, and the lines that are needed, from 0."""

    features: Floats
    needed: Ints


def fit(tasks: Sequence[Task], out: Path, *, date: str, fitted_on: str, tell: Callable[[str], None]) -> None:
    """Fit every kind that has enough tasks and write a weights file; other kinds keep the weights that are shipped."""
    weights = json.loads(WEIGHTS_FILE.read_text(encoding="utf-8"))
    before = weights["fitted_on"]
    fitted: list[str] = []
    for kind in get_args(WeightedKind):
        examples = [example for task in tasks if task.source_type == kind for example in _examples(task)]
        if len(examples) < _FEWEST_TASKS:
            tell(f"{kind}: {len(examples)} tasks are too few, the weights stay")
            continue
        names = [name for names in FEATURES[kind] for name in names]
        values, loss = fit_weights(examples)
        tell(f"{kind}: {len(examples)} tasks, mean loss {loss:.4f}")
        weights[kind] = {name: round(float(value), 3) for name, value in zip(names, values, strict=True)}
        fitted.append(f"{kind}: {len(examples)} tasks of {fitted_on}.")
    kept = [kind for kind in get_args(WeightedKind) if not any(each.startswith(kind) for each in fitted)]
    if fitted:
        weights["date"] = date
        weights["fitted_on"] = " ".join([*fitted, *([f"{', '.join(kept)} as before: {before}"] if kept else [])])
    out.write_text(json.dumps(weights, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def fit_weights(examples: Sequence[Example]) -> tuple[Floats, float]:
    """Minimise the mean loss, which is convex; gives the weights and the loss."""
    weights = np.zeros(examples[0].features.shape[0])
    loss, gradient, curvature = _loss(weights, examples)
    for _ in range(_MOST_STEPS):
        direction = np.linalg.solve(curvature, gradient)
        step = 1.0
        # Halve the step until the loss falls.
        while (attempt := _loss(weights - step * direction, examples))[0] >= loss and step > _SMALLEST_STEP:
            step /= 2
        if loss - attempt[0] < _SMALLEST_GAIN:
            break
        weights = weights - step * direction
        loss, gradient, curvature = attempt
    return weights, loss


def _examples(task: Task) -> list[Example]:
    parsed = parse_text(task.text, task.source_type)
    question = read_question(task.query)
    evidence = evidence_in(parsed, question)
    if evidence.share_found == 0:
        return []
    line_features = parsed.features.copy()
    if question.is_about_comments and task.source_type == "code":
        # As in scoring: such a question does not count a line down for being a comment.
        line_features[FEATURES["code"][0].index("is_comment")] = 0.0
    features = np.concatenate([line_features, question_features(parsed, evidence)])
    return [Example(features, np.array(task.gold_lines) - 1)]


def _loss(weights: Floats, examples: Sequence[Example]) -> tuple[float, Floats, Floats]:
    """The mean loss with its gradient and its curvature (the Hessian matrix).

    The loss of an example is the mean of minus the logarithm of the likelihoods of the lines that are needed.
    """
    loss = 0.0
    gradient = np.zeros(weights.size)
    curvature = np.zeros((weights.size, weights.size))
    for example in examples:
        features, needed = example.features, example.needed
        scores = weights @ features
        odds = np.exp(scores - scores.max())
        likelihood = odds / odds.sum()
        expected = features @ likelihood
        loss -= float(np.log(likelihood[needed]).mean())
        gradient += expected - features[:, needed].mean(axis=1)
        curvature += (features * likelihood) @ features.T - np.outer(expected, expected)
    count = len(examples)
    ridge_loss = 0.5 * _RIDGE * float(weights @ weights)
    return (
        loss / count + ridge_loss,
        gradient / count + _RIDGE * weights,
        curvature / count + _RIDGE * np.eye(weights.size),
    )
