"""What a model is told of an edit, and edits whose text is not in the file but can mean only one place."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bench import Bench
from tools.filesystem.patch.lenient import guess
from tools.filesystem.patch.merge import merge

GO = (
    'package a\n\nfunc one() {\n\tif x {\n\t\treturn "a\\n"\n\t}\n}\n\nfunc two() {\n\tif y {\n\t\treturn "b"\n\t}\n}\n'
)


def edit(bench: Bench, old: str, new: str, **more: Any) -> str:
    return bench.tell("fs_patch", path="a", old_string=old, new_string=new, **more)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("return 1", "return 2", "line 2 changed"),
        ("b:\n    return 1\n", "b:\n    x = 1\n    return x\n", "lines 2-3 changed (+1)"),
        ("a = 0", "a = 0\nc = 9", "line 5 added"),
        ("    return 1\n", "", "line 2 removed"),
        ("def b:\n    return 1", "", "2 lines removed at 1"),
        ("def b:\n", "def b:\n    '''B.'''\n", "line 2 added"),
    ],
)
def test_a_receipt_says_where_and_no_more(bench: Bench, old: str, new: str, told: str) -> None:
    path = bench.file("a", "def b:\n    return 1\n\na = 0\n")
    receipt = edit(bench, old, new)
    assert re.fullmatch(rf"{path}: {re.escape(told)} · rev \w{{8}} · undo \w+", receipt), receipt


def test_a_receipt_has_a_diff_where_it_says_more_or_is_asked_for(bench: Bench) -> None:
    path = bench.file("a", "x = 1\ny = x\nz = x\n")
    assert edit(bench, "x = 1", "x = 2", diff=True).endswith("\n@@ -1,3 +1,3 @@\n-x = 1\n+x = 2\n y = x\n z = x\n")
    every = edit(bench, "x", "w", replace_all=True)
    assert f"{path}: lines 1-3 changed" in every
    assert " · 3 places · " in every
    assert "\n+w = 2\n" in every
    assert path.read_text() == "w = 2\ny = w\nz = w\n"


def test_a_receipt_names_what_the_file_made_of_the_text(bench: Bench) -> None:
    bench.file("a", "one\r\ntwo\r\n")
    assert "CRLF kept" in edit(bench, "one\ntwo", "one\nthree")
    path = bench.file("a", "één\n".encode("latin-1"))
    assert "in latin-1" in edit(bench, "n", "ns")
    assert path.read_bytes() == "ééns\n".encode("latin-1")


NESTED = "def f():\n    if x:\n        y()\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "result", "ignored"),
    [
        ("a  \nb\t\nc\n", "a\nb\n", "a\nB\n", "a  \nB\nc\n", "white space at line ends"),
        (GO, 'if y {\n\treturn "b"\n}', "if y {\n\treturn z()\n}", GO.replace('"b"', "z()"), "indentation"),
        (
            NESTED,
            "if x:\n\ty()",
            "if x:\n\tif z:\n\t\ty()",
            f"{NESTED[:-12]}        if z:\n            y()\n",
            "indentation",
        ),
        (GO, "  func two() {\n", "", GO.replace("func two() {\n", ""), "indentation"),
        ("f(a,  b)\ng()\n", "f(a, b)\n\ng()", "f(b)\n\ng()", "f(b)\ng()\n", "white space"),
        ("one\ntwo\nthree\n", " 2→two\n 3→three", " 2→2\n 3→three", "one\n2\nthree\n", "line numbers"),
        ("one\n\ttwo\n\t3\n", " 2│\ttwo\n 3│\t3", " 2│\t2\n 3│\t3", "one\n\t2\n\t3\n", "line numbers"),
        ('say("a")\n', 'say(\\"a\\")', 'say(\\"b\\")', 'say("b")\n', "escapes"),
        ("a()\nb()\n", "a()\\nb()", "a()\\nc()", "a()\nc()\n", "escapes"),
        ("it’s “so”\n", 'it\'s "so"', "it is so", "it is so\n", "typographic signs"),
    ],
)
def test_an_edit_that_can_mean_one_place_is_made(
    bench: Bench, text: str, old: str, new: str, result: str, ignored: str
) -> None:
    path = bench.file("a", text)
    told = edit(bench, old, new)
    assert path.read_text() == result, told
    assert f" · {ignored} ignored · " in told
    assert "\n@@ " in told


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("  a(1)\n    a(1)\n", "\ta(1)\n", "a(2)\n"),
        ("x = 1\n", "y = 1", "y = 2"),
        ("  }\n\t}\n", " }\n }\n", "}\n"),
        # What would be ignored is what the edit is about.
        ("a = 1\n    b = 2\n", "\tb = 2\n", "b = 2\n"),
        ("say(“a”)\n", 'say( "a" )', 'say("a")'),
    ],
)
def test_an_edit_that_can_mean_none_or_several_is_refused(bench: Bench, text: str, old: str, new: str) -> None:
    path = bench.file("a", text)
    assert edit(bench, old, new).startswith("[NO_MATCH]")
    assert path.read_text() == text


SHOP = (
    "def price(item, tax):\n    # The sum of all.\n    total = item.price * item.count\n    total += tax\n"
    "    return total\n\ndef name(item):\n    return item.name\n"
)


@pytest.mark.parametrize(
    ("old", "new", "result", "first"),
    [
        # A comment that is worded otherwise in the file stays.
        (
            "def price(item, tax):\n    # The sum of it all.\n    total = item.price * item.count\n    total += tax\n",
            "def price(item, tax):\n    # The sum of it all.\n    total = item.price * item.count\n    total -= tax\n",
            SHOP.replace("+=", "-="),
            "# The sum of all.",
        ),
        # One line, of which the file has another word than the caller thinks, and gets another one.
        (
            "    # The sum of all.\n    total = item.cost * item.count\n    total += tax\n    return total\n",
            "    # The sum of all.\n    total = item.cost * item.number\n    total += tax\n    return total\n",
            SHOP.replace("item.count", "item.number"),
            "total = item.price * item.count",
        ),
        # A line that is already as the edit wants it, and one that is not.
        (
            "def price(item, taxes):\n    # The sum of all.\n    total = item.price * item.count\n    total += tax\n",
            "def price(item, tax):\n    # The sum of all.\n    total = item.price * item.count\n    total += tax / 2\n",
            SHOP.replace("+= tax", "+= tax / 2"),
            "def price(item, tax):",
        ),
        # New lines before one that is worded otherwise.
        (
            "    total += tax\n    return total\n\ndef names(item):",
            "    total += tax\n    return total\n\ndef count(item):\n    return item.count\n\ndef names(item):",
            SHOP.replace("def name", "def count(item):\n    return item.count\n\ndef name"),
            "def name(item):",
        ),
    ],
)
def test_an_edit_beside_lines_that_are_worded_otherwise_is_made(
    bench: Bench, old: str, new: str, result: str, first: str
) -> None:
    path = bench.file("a", SHOP)
    told = edit(bench, old, new)
    assert path.read_text() == result, told
    assert f" · other words there (first: {first!r}) ignored · " in told
    assert "\n@@ " in told


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        # The edit is about the words that are other in the file.
        (
            SHOP,
            "total = item.cost * item.count\n    total += tax\n    return",
            "total = 0\n    total += tax\n    return",
        ),
        (SHOP, "count\n    total += taxes\n    return total\n\n", "count\n    return total\n\n"),
        # Lines behind one that is other may belong to another one.
        (
            SHOP,
            "    # The sum of all.\n    total = item.price * item.number\n    total += tax\n",
            "    # The sum of all.\n    total = item.price * item.number\n    total *= 2\n    total += tax\n",
        ),
        # Lines were put between, or most are other.
        (SHOP, "    # The sum of all.\n    total += tax\n    return total\n", "    # The sum.\n    total += tax\n"),
        (SHOP, "def cost(it):\n    # It.\n    total += tax\n    return sum\n", "def cost(it):\n    return 1\n"),
        # It may mean either of two places.
        (SHOP + SHOP, SHOP.replace("of all", "of it all"), SHOP.replace("of all", "of it all").replace("+=", "-=")),
    ],
)
def test_an_edit_about_lines_that_are_worded_otherwise_is_refused(bench: Bench, text: str, old: str, new: str) -> None:
    path = bench.file("a", text)
    assert edit(bench, old, new).startswith("[NO_MATCH]")
    assert path.read_text() == text


@pytest.mark.parametrize("operation", [{"expected_count": 2}, {"regex": True}, {"type": "replace_all"}, {}])
def test_operations_of_a_model_are_lenient_unless_they_say_more(bench: Bench, operation: dict[str, Any]) -> None:
    given = {"type": "replace_first", "pattern": "if y {\n return", "replacement": "if z {\n return", **operation}
    path = bench.file("a", GO.replace('return "b"', "return"))
    told = bench.tell("fs_patch", path="a", operations=[given])
    assert ("indentation ignored" in told) == ("type" in operation or not operation), told
    assert ("if z {\n\t\treturn" in path.read_text()) == ("indentation" in told)


def test_an_inserted_line_is_indented_like_the_one_that_is_meant(bench: Bench) -> None:
    path = bench.file("a", GO)
    operation = {"type": "insert_after", "match": "  if y {\n", "insert": "    z()"}
    assert "indentation ignored" in bench.tell("fs_patch", path="a", operations=[operation])
    assert path.read_text() == GO.replace("if y {\n", "if y {\n\t\tz()\n")


def test_a_program_is_given_no_match(bench: Bench) -> None:
    bench.file("a", GO)
    operation = {"type": "replace_first", "pattern": "  if y {", "replacement": "  if z {"}
    assert bench.error("fs_patch", path="a", operations=[operation]).code == "NO_MATCH"


def test_an_edit_that_was_made_says_so_and_writes_nothing(bench: Bench) -> None:
    path = bench.file("a", GO)
    told = edit(bench, "\tif y {\n\t\treturn nil\n\t}\n", '\tif y {\n\t\treturn "b"\n\t}\n')
    assert f"{path}: nothing changed · already so from line 10 on" in told
    assert (path.read_text(), bench.journal.entries()) == (GO, [])


def test_a_text_that_is_there_no_more_shows_what_changed(bench: Bench) -> None:
    path = bench.file("a", GO)
    bench.call("fs_read", path="a")
    path.write_text(GO.replace("func two", "func three"))
    told = edit(bench, "func two() {\n\tif y {", "func two() {\n\tif z {")
    assert told.startswith("[NO_MATCH]")
    assert "changed since rev" in told
    assert "\n-func two() {\n+func three() {\n" in told


def test_what_is_not_unique_is_shown_with_what_it_is_in(bench: Bench) -> None:
    bench.file("a", GO.replace('"b"', '"a\\n"'))
    told = edit(bench, '\t\treturn "a\\n"', "")
    assert told.startswith("[COUNT_MISMATCH]")
    assert '\n4\t\tif x {\n5\t\t\treturn "a\\n"  (in func one() {)\n' in told
    assert '\n11\t\t\treturn "a\\n"  (in func two() {)\n' in told


def test_a_definition_is_in_no_other_one_and_a_line_of_a_text_in_its_section(bench: Bench) -> None:
    bench.file("a", "def f(x):\n    pass\n\ndef g(x):\n    pass\n\n# Use\n\npass (x)\n")
    told = edit(bench, "(x)", "")
    assert told.endswith("\n1\tdef f(x):\n4\tdef g(x):\n9\tpass (x)  (in # Use)\n")


def test_a_removed_line_takes_its_ending_only_where_clients_do_so(bench: Bench) -> None:
    path = bench.file("a", "one\ntwo three\nfour\n")
    edit(bench, "one", "")
    assert path.read_text() == "two three\nfour\n"
    edit(bench, "three", "")
    assert path.read_text() == "two \nfour\n"
    bench.tell("fs_patch", path="a", operations=[{"type": "replace_first", "pattern": "four", "replacement": ""}])
    assert path.read_text() == "two \n\n"
    bench.call("fs_patch", path="a", operations=[{"type": "replace_first", "pattern": "two ", "replacement": ""}])
    assert path.read_text() == "\n\n"


def test_lines_that_are_almost_alike_end_in_a_refusal_and_not_in_a_wait() -> None:
    text = ("  x\n" * 999 + "y\n") * 200
    began = time.process_time()
    assert guess(text, "x\n" * 1_000, "z\n") is None
    assert time.process_time() - began < 20


def test_long_lines_that_are_almost_alike_end_in_a_refusal_and_not_in_a_wait() -> None:
    def groups(count: int, word: str) -> list[str]:
        plain = ["one = 1", "two = 2", "three = 3"]
        return [
            line
            for number in range(count)
            for line in ["# begins" if number % 40 == 0 else plain[0], *plain[1:], f"{number} {word}" * 30]
        ]

    text, wanted = "\n".join(groups(1_990, "ab cd ef ")), groups(70, "ab dc fe ")
    began = time.process_time()
    assert merge(text, "\n".join(wanted), "\n".join([*wanted, "z"])) is None
    assert time.process_time() - began < 10


_LINES = st.lists(st.sampled_from(["a", "b c", "\tif x:", "    y = 1", "}", "", "  "]), max_size=12)


@given(_LINES, _LINES, _LINES, st.data())
def test_a_guess_touches_only_the_place_and_only_if_there_is_one(
    before: list[str], block: list[str], behind: list[str], data: st.DataObject
) -> None:
    """However the white space of a block is altered: nothing but the block changes, and only if it is there once."""
    text = "\n".join([*before, *block, *behind, "end"])
    old = "\n".join(data.draw(st.sampled_from(["", " ", "\t"])) + line.strip() for line in block)
    found = guess(text, old, old + "\nnew line")
    if found is None or not old.strip():
        return
    result = text[: found.start] + found.put + text[found.end :]
    assert result.count("new line") == 1
    left = [line for line in result.split("\n") if line.strip() != "new line"]
    assert [line for line in left if line.strip()] == [line for line in text.split("\n") if line.strip()]
    keys = [line.strip() for line in text.split("\n") if line.strip()]
    wanted = [line.strip() for line in block if line.strip()]
    assert sum(keys[at : at + len(wanted)] == wanted for at in range(len(keys))) >= 1


@given(
    _LINES, st.lists(st.sampled_from(["total = a + b", "return total", "x = f(a, b)"]), min_size=3), _LINES, st.data()
)
def test_a_merge_leaves_what_is_other_in_the_file(
    before: list[str], block: list[str], behind: list[str], data: st.DataObject
) -> None:
    """Whichever word of a line is another one: the line stays, and what the edit changes is changed once."""
    at, changed = (data.draw(st.integers(0, len(block) - 1)) for _ in range(2))
    there = [*block]
    there[at] = f"{there[at]}  # kept"
    text = "\n".join([*before, *there, *behind, "end"])
    old, new = "\n".join(block), "\n".join([*block[:changed], "made", *block[changed + 1 :]])
    found = merge(text, old, new)
    if found is None:
        return
    assert at != changed
    result = text[: found.start] + found.put + text[found.end :]
    expected = [*there[:changed], "made", *there[changed + 1 :]]
    assert result == "\n".join([*before, *expected, *behind, "end"])
