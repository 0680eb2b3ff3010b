"""The output of test runners and compilers is known for what it is, and what it points at is kept."""

from pathlib import Path

import pytest

from tests.tools.pruning.engine.test_logs import quiet
from tools.pruning import engine

_REPOSITORY = Path(__file__).parents[4]

PYTEST = """\
============================= test session starts ==============================
platform linux -- Python 3.11.7, pytest-9.2.0, pluggy-1.7.0
collected 412 items

{}
=================================== FAILURES ===================================
_________________________________ test_total ___________________________________

    def test_total():
        order = make_order()
        order.add(3)
>       assert order.total() == 12
E       assert 11 == 12
E        +  where 11 = total()

tests/test_orders.py:41: AssertionError
=========================== short test summary info ============================
FAILED tests/test_orders.py::test_total - assert 11 == 12
========================= 1 failed, 411 passed in 3.02s ========================
"""
MOCHA = """\

  orders
{}
    1) adds up


  270 passing (47ms)
  1 failing

  1) orders
       when full
         adds up:

      AssertionError [ERR_ASSERTION]: sum of two
      + expected - actual

      -11
      +12

      at Context.<anonymous> (test/orders.js:31:54)
      at process.processImmediate (node:internal/timers:483:21)
"""
JEST = """\
PASS test/stock.test.js
{}
FAIL test/orders.test.js
  ● orders › adds up

    expect(received).toBe(expected) // Object.is equality

    Expected: 12
    Received: 11

    > 25 |     expect(total(order)).toBe(12)
         |                          ^

      at Object.toBe (test/orders.test.js:25:67)

Tests:       1 failed, 270 passed, 271 total
"""
GO = """\
{}
--- FAIL: TestTotal (0.00s)
    orders_test.go:31: got 11, want 12
FAIL
FAIL\texample.org/orders\t0.012s
"""
CARGO = """\
   Compiling orders v0.1.0
{}
error[E0308]: mismatched types
  --> src/orders.rs:12:5
   |
12 |     total
   |     ^^^^^ expected `String`, found `u32`

error: could not compile `orders` (lib) due to 1 previous error
"""
TSC = """\
{}
src/orders.ts(12,5): error TS2322: Type 'number' is not assignable to type 'string'.
src/stock.ts(3,1): error TS2304: Cannot find name 'stock'.
"""
MAKE = """\
{}
orders.c:12:5: error: 'total' undeclared (first use in this function)
make: *** [Makefile:4: orders.o] Error 1
"""
NPM = """\
{}
npm error code ELIFECYCLE
npm error orders@1.0.0 test: `node test.js`
"""
CTEST = """\
Test project /build
{}
      7/8 Test #7: orders ...........................***Failed    0.01 sec

88% tests passed, 1 tests failed out of 8

The following tests FAILED:
\t  7 - orders (Failed)
"""
ESLINT = """\
{}
/app/orders.js
  12:5  error    'total' is not defined  no-undef
  14:1  warning  Unexpected console      no-console

✖ 2 problems (1 error, 1 warning)
"""
GRADLE = """\
> Task :compileJava
{}
> Task :test FAILED

FAILURE: Build failed with an exception.

* What went wrong:
Execution failed for task ':test'.

BUILD FAILED in 3s
"""
RUNS = {
    "pytest": (
        PYTEST,
        "tests/test_stock.py ....................",
        ("test_total _", ">  ", "E  ", "FAILED", "1 failed"),
    ),
    "mocha": (
        MOCHA,
        "    ✔ keeps the order",
        ("1 failing", "1) orders", "when full", "adds up:", "Assert", "-11", "+12"),
    ),
    "jest": (
        JEST,
        "PASS test/more.test.js",
        ("FAIL", "●", "expect(rec", "Expected", "Received", "> 25", "orders.test.js:25"),
    ),
    "go": (GO, "ok  \texample.org/stock\t0.01s", ("--- FAIL", "got 11", "FAIL\t")),
    "cargo": (CARGO, "   Compiling serde v1.0", ("error[E0308]", "--> src", "error: could")),
    "tsc": (TSC, "Checking a project", ("orders.ts(12", "stock.ts(3")),
    "make": (MAKE, "cc -c stock.c", ("orders.c:12", "make: ***")),
    "npm": (NPM, "> orders@1.0.0 prepare", ("npm error code", "npm error orders")),
    "ctest": (CTEST, "      1/8 Test #1: stock ............   Passed    0.01 sec", ("7/8", "88%", "7 - orders")),
    "eslint": (ESLINT, "/app/stock.js", ("12:5", "✖ 2")),
    "gradle": (GRADLE, "> Task :classes UP-TO-DATE", ("> Task :test FAILED", "FAILURE", "* What", "BUILD FAILED")),
}


@pytest.mark.parametrize("runner", RUNS)
def test_a_failing_run_is_a_log_and_says_why_it_fails(runner: str) -> None:
    form, passing, needed = RUNS[runner]
    text = form.format("\n".join([passing] * 300))
    selection = engine.prune(text, "why does it fail?", max_prune_ratio=0.9, min_keep_lines=0)
    assert selection.source_type == "logs"
    lines = text.split("\n")
    kept = [lines[number - 1] for number in selection.kept()]
    for piece in needed:
        assert any(piece in line for line in kept), piece
        assert all(line in kept for line in lines if piece in line and "Passed" not in line)
    assert len(kept) < 0.2 * len(lines)


def test_a_type_that_is_given_is_no_worse_than_one_that_is_detected() -> None:
    for form, passing, _ in RUNS.values():
        text = form.format("\n".join([passing] * 300))
        assert engine.prune(text, "why does it fail?", source_type="logs") == engine.prune(text, "why does it fail?")


def test_frames_of_libraries_go_before_those_of_the_user() -> None:
    own = [f'  File "/home/me/app/orders_{n}.py", line {n}, in total' for n in range(4)]
    library = [f'  File "/usr/lib/python3.11/site-packages/web/{n}.py", line {n}, in run' for n in range(40)]
    lines = [
        *quiet(40),
        "Traceback (most recent call last):",
        *library,
        *own,
        "ValueError: total is missing",
        *quiet(20),
    ]
    selection = engine.prune("\n".join(lines), "why?", max_prune_ratio=0.7, min_keep_lines=0)
    kept = {lines[number - 1] for number in selection.kept()}
    assert kept >= {*own, "ValueError: total is missing"}
    assert len(kept & set(library)) < 20


def test_output_that_complains_is_a_log_only_if_a_command_printed_it() -> None:
    text = "\n".join(["some words about nothing in particular"] * 60 + ["error: no such option"])
    assert engine.prune(text, "error", is_output=True).source_type == "logs"
    assert engine.prune(text, "error").source_type == "docs"


def test_no_program_and_no_document_is_taken_for_a_log() -> None:
    paths = [*_REPOSITORY.glob("tools/**/*.py"), *_REPOSITORY.glob("registry/*.py"), *_REPOSITORY.glob("*.md")]
    paths += _REPOSITORY.glob("docs/*.md")
    assert len(paths) > 80
    for path in paths:
        assert engine.prune(path.read_text("utf-8"), "error").source_type != "logs", path


@pytest.mark.parametrize("source_type", ["code", "docs", "logs"])
def test_a_word_that_is_asked_for_and_rare_is_always_shown(source_type: engine.SourceType) -> None:
    lines = [f"the pool takes {n} and returns {n + 1}" for n in range(300)]
    lines[40] = "a watermark of nine"
    lines[230] = "no Watermark here"
    asked = "how does the pool return what it takes, and the watermark?"
    selection = engine.prune("\n".join(lines), asked, source_type=source_type, max_prune_ratio=0.95, min_keep_lines=0)
    assert {41, 231} <= set(selection.kept())


@pytest.mark.parametrize("line", ["error:", "fatal (message);", "ERROR = 1"])
def test_a_program_that_a_command_prints_is_no_log(line: str) -> None:
    text = f"int step(struct pool *pool)\n{{\n    take(pool);\n{line}\n    return release(pool);\n}}\n"
    assert engine.prune(text, "release", is_output=True).source_type == "code"


def test_a_document_that_a_command_prints_is_no_log() -> None:
    text = (
        "Notes\n=====\n\nWhat to know before you begin.\n\nError handling\n--------------\n\nIt says what is wrong.\n"
    )
    assert engine.prune(text, "wrong", is_output=True).source_type == "docs"


@pytest.mark.parametrize(
    "line",
    ["error: no such option", "ERROR in ./src/index.js", "PHP Fatal error:  Uncaught Exception", "ld: fatal error: x"],
)
def test_a_complaint_makes_a_log_of_what_a_command_prints(line: str) -> None:
    text = "\n".join(["some words about nothing in particular"] * 60 + [line])
    assert engine.prune(text, "nothing", is_output=True).source_type == "logs"
