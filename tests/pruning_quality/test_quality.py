"""A floor for the quality of pruning, on made-up tasks; and the programs that score, fit and make tasks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from statistics import fmean
from typing import get_args

import numpy as np
import pytest
from msgspec.structs import replace

from tests.pruning_quality.__main__ import main
from tests.pruning_quality.fitting import fit
from tests.pruning_quality.git_history import mine
from tests.pruning_quality.made_up import made_up_tasks
from tests.pruning_quality.scoring import score_task
from tests.pruning_quality.tasks import BadTask, Task, make_task, read_tasks, write_tasks
from tools.pruning.engine import SourceType
from tools.pruning.engine.weights import FEATURES, load_weights


def tasks_of(kind: SourceType) -> list[Task]:
    return [task for task in made_up_tasks() if task.source_type == kind]


@pytest.mark.parametrize("kind", get_args(SourceType))
@pytest.mark.parametrize(("keep_ratio", "most_tokens"), [(0.45, 0.50), (0.30, 0.36), (0.10, 0.15)])
def test_what_is_needed_is_kept_in_few_tokens(kind: SourceType, keep_ratio: float, most_tokens: float) -> None:
    scores = [score_task(task, keep_ratio) for task in tasks_of(kind)]
    assert fmean(score.recall for score in scores) >= 0.98
    assert fmean(score.has_all for score in scores) >= 0.95
    assert fmean(score.tokens for score in scores) <= most_tokens
    assert not any(score.violates or score.alters or score.is_unstable for score in scores)


@pytest.mark.parametrize("kind", get_args(SourceType))
def test_the_source_type_of_every_task_is_detected(kind: SourceType) -> None:
    for task in tasks_of(kind):
        assert score_task(replace(task, source_type=None), 0.30) == score_task(task, 0.30)


@pytest.mark.parametrize("kind", FEATURES)
def test_the_tasks_tell_a_bad_engine_from_a_good_one(kind: SourceType) -> None:
    shipped = load_weights()
    none = {
        each: replace(shipped[each], line=shipped[each].line * 0, question=shipped[each].question * 0)
        for each in shipped
    }
    assert fmean(score_task(task, 0.10, none).recall for task in tasks_of(kind)) < 0.70


def test_weights_can_be_fitted_from_nothing_but_tasks(tmp_path: Path) -> None:
    out = tmp_path / "weights.json"
    said: list[str] = []
    # One kind has enough tasks, the other has not.
    fit(tasks_of("code") * 2 + tasks_of("docs"), out, date="2031-01-02", fitted_on="made-up tasks", tell=said.append)
    written = json.loads(out.read_text("utf-8"))
    shipped = load_weights()
    fitted = load_weights(out)
    assert (written["date"], said[1]) == ("2031-01-02", "docs: 12 tasks are too few, the weights stay")
    assert written["fitted_on"].startswith("code: 40 tasks of made-up tasks. docs as before: ")
    assert np.array_equal(fitted["docs"].question, shipped["docs"].question)
    assert not np.array_equal(fitted["code"].question, shipped["code"].question)
    assert fmean(score_task(task, 0.10, fitted).recall for task in tasks_of("code")) >= 0.95


@pytest.mark.parametrize("name", ["tasks.jsonl", "tasks.jsonl.gz"])
def test_tasks_come_back_from_a_file_as_they_were(tmp_path: Path, name: str) -> None:
    tasks = made_up_tasks()[::7]
    assert write_tasks(tmp_path / name, tasks) == len(tasks)
    assert read_tasks([tmp_path / name]) == tasks


@pytest.mark.parametrize(
    "line",
    [
        "nothing",
        '{"id": "a", "source_type": "code", "query": "q", "text": "t"}',
        '{"id": "a", "source_type": "code", "query": "q", "text": "t", "changed_lines": [2]}',
        '{"id": "a", "source_type": "poem", "query": "q", "text": "t", "changed_lines": [1]}',
    ],
)
def test_a_line_that_is_no_task_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "tasks.jsonl").write_text(f"\n{line}\n")
    with pytest.raises(BadTask, match=r"tasks\.jsonl line 2 is not a task"):
        read_tasks([tmp_path / "tasks.jsonl"])


def test_gold_lines_are_the_neighbours_and_the_line_that_the_block_hangs_on() -> None:
    text = "def f():\n    a = 1\n    b = 2\n\n    c = 3\n    d = 4\n    e = 5\n"
    assert make_task("a", "code", "q", text, [6]).gold_lines == [1, 5, 6, 7]


def test_every_small_change_of_a_repository_is_a_task(tmp_path: Path) -> None:
    def commit(lines: list[str], message: str) -> None:
        (tmp_path / "pool.py").write_text("\n".join(lines))
        for arguments in (["add", "."], ["commit", "-qm", message]):
            names = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
            subprocess.run(["git", "-C", str(tmp_path), *names, *arguments], check=True)

    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    first = [f"size_{n} = {n}" for n in range(200)]
    commit(first, "Begin with two hundred sizes")
    second = [*first[:50], "size_50 = 51", *first[51:]]
    commit(second, "Correct the size of the fifty-first")
    commit([*second[:100], "size = 0", *second[100:]], "Add a size without a number")
    commit([], "Take all sizes away again")
    newest, oldest = mine(tmp_path, 10)
    assert (newest.query, newest.text, newest.changed_lines) == (
        "Add a size without a number",
        "\n".join(second),
        [100, 101],
    )
    assert (oldest.query, oldest.text, oldest.changed_lines) == (
        "Correct the size of the fifty-first",
        "\n".join(first),
        [51],
    )
    assert oldest.source_type == "code"


def test_the_program_prints_a_line_for_every_kind_and_ratio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = [*tasks_of("code")[:2], *tasks_of("logs")[:1]]
    write_tasks(tmp_path / "tasks.jsonl", tasks)
    assert main(["score", str(tmp_path / "tasks.jsonl")]) == 0
    rows = [line.split()[:4] for line in capsys.readouterr().out.splitlines()]
    assert rows[1:4] == [["0.45", "code", "2", "1.000"], ["0.45", "logs", "1", "1.000"], ["0.45", "any", "3", "1.000"]]
    assert len(rows) == 10
