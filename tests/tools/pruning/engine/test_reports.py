"""Of many failures of one kind one is kept whole and the others are counted; of a compiler's messages likewise."""

import re

import pytest

from tools.pruning import engine

# For each program: what is before the reports, a report with its number in it, one of another kind, what is behind
# them, and what the other report is asked for by.
PYTEST = (
    "=================================== FAILURES ===================================",
    """\
_______________________________ test_load_{n} _______________________________

store = Store('/tmp/store_{n}')

    def test_load_{n}(store):
>       got = store.load("k{n}")

test_store.py:{n}:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _

self = Store('/tmp/store_{n}'), key = 'k{n}'

    def load(self, key):
>       raise KeyError(key)
E           KeyError: 'k{n}'
test_store.py:8: KeyError""",
    """\
_________________________ test_large_orders _________________________

    def test_large_orders():
>       assert rate(600) == 60
E       assert 30 == 60
test_store.py:1120: AssertionError""",
    "=========================== 186 failed, 30 passed in 1.88s ===========================",
)
UNITTEST = (
    "======================================================================",
    """\
FAIL: test_total_{n} (shop.Orders.test_total_{n})
----------------------------------------------------------------------
Traceback (most recent call last):
  File "shop.py", line {n}, in test_total_{n}
    self.assertEqual(total, {n})
AssertionError: {n} != 3

======================================================================""",
    """\
FAIL: test_large_orders (shop.Orders.test_large_orders)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "shop.py", line 126, in test_large_orders
    self.assertEqual(rows, wanted)
AssertionError: Lists differ: ['a'] != ['b']

First differing element 0:
'a'
'b'

- ['a']
+ ['b']
""",
    "Ran 242 tests in 0.011s\n\nFAILED (failures=221)",
)
JEST = (
    "FAIL t/p3.test.js",
    """\
  ● parser › reads value {n}

    expect(received).toEqual(expected) // deep equality

    - Expected  - 1
    + Received  + 1

    -   "name": "m{n}",
    +   "name": "n{n}",

    > {n} |     expect(got).toEqual(name);
         |                 ^

      at Object.toEqual (t/p3.test.js:{n}:17)
""",
    """\
  ● parser › refuses large orders

    SyntaxError: Expected property name in JSON at position 1

    > 93 |     JSON.parse(order)

      at Object.parse (t/p3.test.js:93:10)
""",
    "Tests:       186 failed, 60 passed, 246 total",
)
VITEST = (
    "⎯⎯⎯⎯⎯⎯ Failed Tests 186 ⎯⎯⎯⎯⎯⎯⎯",
    """\
 FAIL  v/p0.spec.mjs > parser > reads value {n}
AssertionError: expected 'n{n}' to deeply equal 'm{n}'

- Expected
+ Received

-   "name": "m{n}",
+   "name": "n{n}",

 ❯ v/p0.spec.mjs:{n}:17
⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[{n}/186]⎯
""",
    """\
 FAIL  v/p0.spec.mjs > parser > refuses large orders
SyntaxError: Expected property name in JSON at position 1
 ❯ v/p3.spec.mjs:93:10
⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[186/186]⎯
""",
    "      Tests  186 failed | 60 passed (246)",
)
AVA = (
    "  ✔ p1 › fine\n  ✘ [fail]: p1 › reads value 0\n  ─\n",
    """\
  p1 › reads value {n}

  a/p1.js:{n}

   {n}: t.is(name, "m");

  Difference (- actual, + expected):

  -     'n{n}',
  +     'm{n}',

  › a/p1.js:{n}:34

""",
    """\
  p1 › refuses large orders

  Error thrown in test:

  SyntaxError {{
    message: 'Expected property name in JSON',
  }}

  › a/p1.js:93:10

""",
    "  ─\n\n  186 tests failed",
)
CARGO_TEST = (
    "failures:\n",
    """\
---- tests::adds_{n} stdout ----

thread 'tests::adds_{n}' (319) panicked at src/lib.rs:{n}:24:
assertion `left == right` failed
  left: {n}
 right: 3
""",
    """\
---- tests::large_orders stdout ----

thread 'tests::large_orders' (31) panicked at src/lib.rs:93:24:
assertion `left == right` failed
  left: "hi"
 right: "Hello"
""",
    "failures:\n    tests::large_orders\n\ntest result: FAILED. 60 passed; 186 failed; 0 ignored",
)
PANICS = (
    "failures:\n",
    """\
---- tests::reads_{n} stdout ----

thread 'tests::reads_{n}' (27{n}) panicked at src/lib.rs:7:{n}:
called `Result::unwrap()` on an `Err` value: ParseIntError {{ kind: InvalidDigit }}
stack backtrace:
   0: __rustc::rust_begin_unwind
   1: shop::read_number
""",
    """\
---- tests::large_orders stdout ----

thread 'tests::large_orders' (31) panicked at src/lib.rs:154:87:
index out of bounds: the len is 0 but the index is 0
""",
    "failures:\n    tests::large_orders\n\ntest result: FAILED. 60 passed; 186 failed; 0 ignored",
)
RUSTC = (
    "   Compiling demo v0.1.0",
    """\
warning: unused variable: `z{n}`
  --> src/lib.rs:{n}:50
   |
{n} | let z{n} = 3;
   |      ^^ help: prefix it with an underscore: `_z{n}`
""",
    """\
error[E0308]: mismatched types
  --> src/lib.rs:31:19
   |
31 |     let w = width(large_orders);
   |             ----- ^^^^^ expected `&str`, found `u64`
   |             |
   |             arguments to this function are incorrect
   |
note: function defined here
  --> src/lib.rs:27:8
""",
    "error: could not compile `demo` (lib) due to 1 previous error; 184 warnings emitted",
)
GCC = (
    "g++ -Wall -c main.cpp",
    """\
main.cpp: In function 'int unused_{n}(int, int)':
main.cpp:{n}:60: warning: comparison of integer expressions [-Wsign-compare]
    {n} | if (u < b) return 1;
      |     ~~^~~""",
    """\
main.cpp: In function 'int port(const Session&)':
main.cpp:65:44: error: 'const struct Session' has no member named 'large_orders'
   65 | return s.large_orders;
      |          ^~~~""",
    "make: *** [Makefile:2: all] Error 1",
)
TAP = (
    "TAP version 13",
    """\
# Subtest: reads value {n}
not ok {n} - reads value {n}
  ---
  duration_ms: 0.{n}
  error: |-
    Expected values to be strictly equal:

    {n} !== 3

  ...
ok {n} - fine {n}
  ---
  duration_ms: 0.{n}
  ...""",
    """\
not ok 93 - refuses large orders
  ---
  error: "Expected property name in JSON at position 1"
  code: 'ERR_TEST_FAILURE'
  ...""",
    "# tests 246\n# pass 60\n# fail 186",
)
MYPY = (
    "",
    'typed.py:{n}: error: Incompatible types in assignment (expression has type "str")  [assignment]',
    'typed.py:303: error: Item "None" of "large_orders | None" has no attribute "total"  [union-attr]',
    "Found 185 errors in 1 file (checked 1 source file)",
)
TSC = (
    "",
    "x.ts({n},7): error TS2322: Type 'string' is not assignable to type 'number'.",
    "x.ts(202,47): error TS2551: Property 'large_orders' does not exist on type 'Shop'.",
    "",
)
MAVEN = (
    "[INFO] Scanning for projects...",
    """\
[INFO] Running com.acme.Case{n}Test
[INFO] Tests run: 8, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.04 s -- in com.acme.Case{n}Test""",
    """\
[ERROR] com.acme.DiscountTest.large_orders -- Time elapsed: 0.004 s <<< FAILURE!
org.opentest4j.AssertionFailedError: expected: <60.0> but was: <30.0>
	at com.acme.DiscountTest.large_orders(DiscountTest.java:21)
""",
    "[ERROR] Tests run: 604, Failures: 1, Errors: 0, Skipped: 0\n[INFO] BUILD FAILURE",
)
SUREFIRE_2 = (
    "[INFO] Running shop.CartTest\n[ERROR] Tests run: 186, Failures: 1, Errors: 184, Skipped: 1 <<< FAILURE!",
    """\
[ERROR] labelsOrder{n}(shop.CartTest)  Time elapsed: 0 s  <<< ERROR!
java.lang.NullPointerException: Cannot invoke "String.length()" because "name" is null
	at shop.CartTest.labelsOrder{n}(CartTest.java:{n})
""",
    """\
[ERROR] large_orders(shop.CartTest)  Time elapsed: 0.26 s  <<< FAILURE!
java.lang.AssertionError: expected:<60> but was:<30>
	at shop.CartTest.large_orders(CartTest.java:55)
""",
    "[ERROR] Tests run: 604, Failures: 1, Errors: 184, Skipped: 1\n[INFO] BUILD FAILURE",
)
MOCHA = (
    "  40 passing (23ms)\n  186 failing\n",
    """\
  {n}) cart
       reads value {n}:
     TypeError: Cannot read properties of undefined (reading 'name')
      at label (cart.mjs:8:54)
      at Context.<anonymous> (test.mjs:{n}:18)
""",
    """\
  93) cart
       refuses large orders:
     SyntaxError: Unexpected end of JSON input
      at JSON.parse (<anonymous>)
""",
    "",
)
FLAKE8 = (
    "",
    "many.py:{n}:13: E711 comparison to None should be 'if cond is None:'",
    "many.py:657:5: F821 undefined name 'large_orders'",
    "",
)
RUFF = (
    "",
    """\
F841 Local variable `x{n}` is assigned to but never used
 --> many.py:{n}:5
  |
{n} |     x{n} = 1
  |     ^^
  |
help: Remove assignment to unused variable
""",
    """\
F821 Undefined name `large_orders`
   --> many.py:658:16
    |
658 |         return large_orders
    |                ^^^^^^^^^^^^
""",
    "Found 186 errors.",
)
TSC_PRETTY = (
    "",
    """\
x.ts:{n}:7 - error TS2322: Type 'string' is not assignable to type 'number'.

{n} const width{n}: number = name;
        ~~~~~
""",
    """\
x.ts:202:47 - error TS2551: Property 'large_orders' does not exist on type 'Shop'.

202 return shop.large_orders;
                ~~~~~~~~~~~~

  x.ts:9:3
    9   large: number;
        ~~~~~
    'large' is declared here.
""",
    "Found 186 errors in the same file, starting at: x.ts:1",
)
TRACEBACK = (
    "",
    "2026-11-19 04:00:{n:02d} INFO step {n} is done",
    """\
Traceback (most recent call last):
  File "tb.py", line 7, in main
    load("large_orders")
FileNotFoundError: [Errno 2] No such file or directory: 'large_orders'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "tb.py", line 10, in main
    raise RuntimeError("cannot start") from e
RuntimeError: cannot start""",
    "",
)
# The largest share of the text that may be kept; a short report costs more beside the markers.
PROGRAMS = {
    "pytest": (PYTEST, 0.15),
    "unittest": (UNITTEST, 0.15),
    "jest": (JEST, 0.15),
    "vitest": (VITEST, 0.15),
    "ava": (AVA, 0.15),
    "cargo test": (CARGO_TEST, 0.15),
    "panics": (PANICS, 0.15),
    "rustc": (RUSTC, 0.35),
    "gcc": (GCC, 0.35),
    "tap": (TAP, 0.25),
    "mypy": (MYPY, 0.35),
    "tsc": (TSC, 0.35),
    "maven": (MAVEN, 0.35),
    "surefire 2": (SUREFIRE_2, 0.35),
    "mocha": (MOCHA, 0.15),
    "flake8": (FLAKE8, 0.35),
    "ruff": (RUFF, 0.35),
    "tsc for a terminal": (TSC_PRETTY, 0.35),
    "traceback": (TRACEBACK, 0.35),
}


# In these the many are no failures, or the reports have no names.
NO_FAILURES = {"maven", "traceback"}
UNNAMED = {"gcc", "tap", "surefire 2"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_first_of_each_kind_is_whole_and_what_the_question_names_too(program: str) -> None:
    (before, report, other, after), most = PROGRAMS[program]
    reports = [report.format(n=n) for n in range(1, 185)]
    other = other.replace("{{", "{").replace("}}", "}")
    text = "\n".join([before, *reports[:92], other, *reports[92:], after, ""])
    shown = _focused(text, "why does it fail with large orders?")
    assert other.strip() in shown
    assert after.strip() in shown
    assert len(shown) < most * len(text)
    assert other.strip() in _focused(text, "why does it fail?")
    if program in NO_FAILURES:
        return
    assert _inner(reports[0]) in shown
    counted = re.search(r"(\d+) more like line (\d+): (.*)", shown)
    assert counted is not None
    assert text.split("\n")[int(counted[2]) - 1] in reports[0]
    assert int(counted[1]) > 40
    if program not in UNNAMED:
        assert _inner(reports[76]) in _focused(text, "what is wrong with 77?")


def _inner(report: str) -> str:
    """Without the rule behind it, or the test behind it that passed."""
    return report.partition("\n\n=====")[0].partition("\nok ")[0].strip()


def test_of_a_long_report_the_beginning_is_kept_and_what_tells() -> None:
    report = """\
not ok {n} - {name}
  ---
  location: 'cart.test.mjs:{n}:3'
  failureType: 'testCodeFailure'
  error: |-
{values}
    {n} !== 3
  stack: |-
    cart.test.mjs:{n}:106
  ..."""
    values = "\n".join(f"    'cup {n}'" for n in range(60))
    reports = [report.format(n=n, name=f"reads value {n}", values=values) for n in range(1, 30)]
    other = report.format(n=93, name="refuses large orders", values=values.replace("cup", "map"))
    shown = _focused("\n".join(["TAP version 13", *reports, other, "# fail 30"]), "why does it fail?")
    assert reports[0][:200] in shown
    assert other[:200] in shown
    assert shown.rstrip().endswith("# fail 30")


def test_where_a_warning_stands_goes_with_it() -> None:
    """The function that gcc names above a repeated warning, and the file that it was included from."""
    report = """\
{before}part.cpp:{n}:13: warning: comparison of integer expressions [-Wsign-compare]
  {n} |   if (count < size)
      |       ~~~~~~^~~~~~"""
    function = "part.cpp: In function 'int helper_{n}(int, unsigned)':\n"
    included = "In file included from /usr/include/vector:64,\n                 from part.cpp:3:\n"
    note = f"{included}/usr/include/bits/vector.h:12:7: note: candidate: 'void push_back(int)'"
    reports = [report.format(n=n, before=function.format(n=n)) for n in range(1, 400)]
    error = "part.cpp:900:15: error: no matching function for call to 'push_back(string)'\n  900 | v.push_back(s);"
    text = "\n".join(["g++ -c part.cpp", *reports, f"{error}\n{note}", *reports, "make: *** [part.o] Error 1", ""])
    shown = _focused(text, "what is wrong?")
    assert reports[0] in shown
    assert f"{error}\n{note}" in shown
    assert len(shown) < 0.35 * len(text)


def test_of_a_very_long_log_no_share_is_kept() -> None:
    report = "part.cpp:{n}:13: warning: comparison of integer expressions [-Wsign-compare]"
    text = "\n".join([*(report.format(n=n) for n in range(20_000)), "part.cpp:3:1: error: expected ';'"])
    shown = _focused(text, "why does it fail?")
    assert "error: expected ';'" in shown
    assert len(shown.split("\n")) < 500


def test_every_error_stays_where_it_must() -> None:
    """`prune_text` promises it."""
    for program in ("pytest", "unittest", "cargo test", "mypy", "tsc"):
        (before, report, _, after), _ = PROGRAMS[program]
        text = "\n".join([before, *(report.format(n=n) for n in range(1, 185)), after])
        kept = engine.prune(text, "why does it fail?", is_output=True, max_prune_ratio=0.9).kept()
        lines = text.split("\n")
        shown = {lines[number - 1] for number in kept}
        assert shown.issuperset(line for line in lines if "Error: " in line or ": error" in line or "E  " in line)


def test_a_record_of_a_rare_shape_is_kept_and_repeated_alarms_are_not() -> None:
    users = ["root", "admin", "oracle"]
    records = [
        f"Nov 18 00:{n % 60:02d}:01 bastion sshd[{n}]: Failed password for {users[n % 3]} from 10.0.0.7 port {n}"
        for n in range(1, 1500)
    ]
    records.insert(800, "Nov 18 09:01:02 bastion sshd[81]: Accepted publickey for deploy from 10.0.0.7 port 50122 ssh2")
    records.insert(300, "Nov 18 07:00:00 bastion kernel: Out of memory: Killed process 4411 (postgres)")
    text = "\n".join(records)
    shown = _focused(text, "Did any login succeed?")
    assert "Accepted publickey" in shown
    assert "Out of memory" in shown
    assert len(shown) < 0.3 * len(text)


def _focused(text: str, question: str) -> str:
    selection = engine.prune(text, question, is_output=True, collapses=True, max_prune_ratio=None, min_keep_lines=20)
    return engine.render_text(text, selection, "prn_1", language="en")


ACCESS = '10.9.{n}.7 - - [14/Nov/2026:02:{s:02}:00 +0000] "GET /item/{n} HTTP/1.1" 200 {n} "-" "curl/8.5"'
KERNEL = "[{n:6}.210000] usb 1-4: new high-speed USB device number {n} using xhci_hcd"


@pytest.mark.parametrize(
    ("record", "rare"),
    [
        (ACCESS, '10.9.8.7 - - [14/Nov/2026:02:00:00 +0000] "POST /checkout HTTP/1.1" 502 157 "-" "curl/8.5"'),
        (KERNEL, "[   456.210000] e1000e 0000:00:1f.6 eth0: NIC Link is Down"),
    ],
)
def test_the_records_of_servers_and_of_the_kernel_are_a_log(record: str, rare: str) -> None:
    records = [record.format(n=n, s=n % 60) for n in range(1000)]
    text = "\n".join([*records[:700], rare, *records[700:]])
    shown = _focused(text, "what went wrong?")
    assert rare in shown
    assert len(shown) < 0.3 * len(text)
