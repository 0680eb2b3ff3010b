"""New syntax errors are told after a change: only those, in one line, quickly, whatever the file holds."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.support.bench import Bench
from tools.filesystem.syntax import new_error

GOOD = "def f(x):\n    return (x)\n"
BIG = "".join(f'def f{n}(x):\n    """A text\nat the margin\n    """\n    return [x, {n}]\n\n\n' for n in range(3_500))


@pytest.mark.parametrize(
    ("name", "before", "after", "error"),
    [
        ("a.py", GOOD, GOOD.replace("(x)\n", "(x\n"), "line 2: '(' was never closed"),
        ("a.py", GOOD, GOOD.replace("    return", "  return\n    return"), "line 3: unexpected indent"),
        ("a.pyi", None, "def f(:\n", "line 1: invalid syntax"),
        ("a.py", None, GOOD, None),
        ("a.py", "def f(:\n", "def f(:\n    pass\n", None),
        ("a.py", "", "", None),
        ("a.json", '{"a": 1}', '{\n"a": 1,\n}', "line 2: trailing comma is not allowed"),
        ("a.json", "{", "{,", None),
        ("tsconfig.json", "{}", '{\n// why\n"a": 1}', None),
        ("a.toml", "a = 1\n", "a = 1\nb = \n", "line 2: Invalid value"),
        ("a.toml", "a = 1\n", "a = 1\nb = 2\n", None),
        ("a.txt", "", "def f(:", None),
        ("big.py", BIG, BIG.replace("[x, 1700]", "[x, 1700"), "line 11905: '[' was never closed"),
        ("big.py", BIG, BIG.replace("[x, 1700]", "[x, 1]"), None),
        # Within a string; alone it would be wrong.
        ("big.py", BIG, BIG.replace("margin", "margin (", 1_700).replace("margin (", "margin", 1_699), None),
    ],
)
def test_only_new_errors_are_told(name: str, before: str | None, after: str, error: str | None) -> None:
    assert new_error(name, before, after) == (None if error is None else f"new syntax error in {error}")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "[" * 9_000,
        "-" * 9_000 + "1",
        "not " * 2_000 + "x",
        "lambda:" * 1_200 + "x",
        "x" + ".y" * 4_000,
        "x" + "()" * 4_000,
        "x" + "+1" * 4_000,
        "".join(f"{' ' * n}if x:\n" for n in range(130)),
        "f'" + "{" * 4_000,
        "'''" * 3_001,
        "\0",
        "\\\n" * 4_000,
        "x = " * 2_000 + "1",
        "a if b else " * 700 + "c",
    ],
)
@pytest.mark.parametrize("name", ["a.py", "a.json", "a.toml"])
def test_what_nobody_writes_ends_no_thread(name: str, text: str) -> None:
    """A parser that uses up the small stack of a thread would end the whole process."""
    found: list[str | None] = []
    worker = threading.Thread(target=lambda: found.append(new_error(name, GOOD, text)))
    worker.start()
    worker.join(20)
    assert len(found) == 1


def test_blank_lines_cost_no_more_than_others() -> None:
    """Seen: one write of a JSON file with 240,000 empty lines stopped the daemon for a minute."""
    began = time.process_time()
    assert new_error("a.json", None, "{" + "\n" * 200_000) is not None
    assert new_error("a.json", None, "{" + "\n" * 200_000 + "  // why") is None
    assert time.process_time() - began < 1


def test_a_large_file_costs_little(tmp_path: Path) -> None:
    changed = BIG.replace("[x, 1700]", "[x, 1]")
    began = time.process_time()
    new_error("big.py", BIG, changed)
    part = time.process_time() - began
    began = time.process_time()
    compile(BIG, "big", "exec")
    # A share of parsing it all, whatever the machine.
    assert part < (time.process_time() - began) / 4


def test_receipts_of_every_change_have_it(bench: Bench) -> None:
    bench.file("a.py", GOOD)
    told = bench.tell("fs_patch", path="a.py", old_string="(x)\n", new_string="(x\n")
    assert "line 2 changed · new syntax error in line 2: '(' was never closed · rev" in told
    again = bench.tell("fs_patch", path="a.py", old_string="def f", new_string="def g")
    assert "syntax" not in again
    assert "new syntax error in line 1: invalid syntax" in bench.tell("fs_write", path="b.py", content="def:\n")
    assert "syntax" not in bench.tell("fs_write", path="b.py", content="def :\n")
    patch = "*** Begin Patch\n*** Add File: c.json\n+{\n*** End Patch"
    assert "c.json: added, 1 line · new syntax error in line" in bench.tell("fs_patch", patch=patch)
    noted = bench.call("fs_write", path="d.toml", content="a = \n")
    assert noted["notes"] == ["new syntax error in line 1: Invalid value"]
    bench.ctx.checks_syntax = False
    assert "syntax" not in bench.tell("fs_write", path="e.py", content="def:\n")
