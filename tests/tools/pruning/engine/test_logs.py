"""What is kept of a log: every report of an error with its surroundings, and what the question names."""

import pytest

from tools.pruning import engine


def quiet(count: int) -> list[str]:
    return [f"2024-05-01 10:{n // 60:02}:{n % 60:02} INFO worker {n % 7} finished batch {n}" for n in range(count)]


def kept_numbers(lines: list[str], question: str, *, ratio: float = 0.7) -> list[int]:
    selection = engine.prune("\n".join(lines), question, source_type="logs", max_prune_ratio=ratio, min_keep_lines=0)
    return list(selection.kept())


@pytest.mark.parametrize(
    "report",
    [
        "2024-05-01 10:00:01 ERROR disk is full",
        "java.lang.IllegalStateException: closed",
        "Traceback (most recent call last):",
        "panic: runtime error: index out of range",
        "thread 'main' panicked at src/main.rs:4:5",
        "FAILED tests/test_disk.py::test_full - assert 1 == 2",
        "--- FAIL: TestDisk (0.00s)",
        "npm ERR! code ELIFECYCLE",
    ],
)
def test_a_report_is_kept_with_the_lines_around_it_however_much_may_go(report: str) -> None:
    lines = [*quiet(100), report, *quiet(100)]
    assert {100, 101, 102} <= set(kept_numbers(lines, "batch 7", ratio=1.0))


@pytest.mark.parametrize(
    "line", ["tests/test_error.py::test_exception_is_raised PASSED", "build finished: 0 errors", "✓ handles the error"]
)
def test_a_success_is_no_report_whatever_its_words(line: str) -> None:
    lines = [*quiet(100), line, *quiet(100)]
    assert 101 not in kept_numbers(lines, "disk", ratio=1.0)


def test_the_details_of_a_failure_are_kept() -> None:
    failure = [
        "________________ test_full ________________",
        "    def test_full(disk):",
        *(f"        step_{n} = disk.write({n})" for n in range(20)),
        ">       assert disk.free == 3",
        "E       assert 2 == 3",
        "E        +  where 2 = <Disk>.free",
        "",
        "tests/test_disk.py:12: AssertionError",
    ]
    lines = [*quiet(300), *failure, *quiet(20)]
    kept = {lines[n - 1] for n in kept_numbers(lines, "why did it fail?")}
    assert kept >= {failure[0], *failure[-5:-2], failure[-1]}


def test_lines_that_the_question_names_are_kept() -> None:
    lines = quiet(400)
    lines[200] = "2024-05-01 10:03:20 INFO cache rebuilt for tenant omega"
    assert 201 in kept_numbers(lines, "when was the cache of tenant omega rebuilt?")
