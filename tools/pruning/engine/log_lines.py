"""Logs and the output of commands: what tells one from a program or a document, and which of its lines matter.

A failing test run is the case that matters most. What its runner prints at the margin is kept whatever the question is:
the error, the line of the source that it points at, the expected and the actual value, the name of the test, the
summary. Frames of the user's own code come before those of libraries, and a test that passed says nothing.
"""

import re

import numpy as np
from msgspec import Struct

from tools.pruning.engine.records import read_shapes
from tools.pruning.engine.reports import NUMBERED, LogReport, end_of_title, find_reports, mark_lines
from tools.pruning.engine.text_arrays import Bools, Floats, Ints, LineArray, Words, mark, mark_codes, mark_openings

# A line that no program and no document has at its margin: one is enough to tell the output of a tool.
_BANNER = re.compile(
    r"={3,} (?:test session starts|FAILURES|ERRORS|short test summary info|warnings summary) ={3,}\s*$"
    r"|(?:=+ )?\d+ (?:failed|passed|errors?)\b[^=]{0,80} in \d+(?:\.\d+)?s\b"
    r"|(?:FAILED|ERROR) \S+\.py(?:::\S+|\s*$| - )|(?:FAIL|ERROR): \w+ \([\w.]+\)\s*$|Ran \d+ tests? in \d"
    r"|--- (?:FAIL|PASS|SKIP): \S+ \(\d|=== RUN +\S|(?:ok|FAIL) *\t\S+\t\d"
    r"|error(?:\[E\d{4}\])?: (?:could not compile|aborting due to|test failed)|error\[E\d{4}\]: "
    r"|thread '[^']*' (?:\(\d+\) )?panicked at |test result: (?:ok|FAILED)\.|test \S+ \.\.\. (?:ok|FAILED|ignored)\s*$"
    r"|npm (?:ERR!|error) \S|yarn run v\d|make(?:\[\d+\])?: \*\*\* "
    r"|> Task :\S+|BUILD (?:FAILED|SUCCESSFUL)\b|FAILURE: Build failed|\[INFO\] -{5,}"
    r"|(?:\[\w+\] )?Tests run: \d+, Fail"
    r"|(?:PASS|FAIL) \S+\.[cm]?[jt]sx?\b|Tests: +\d+ (?:failed|passed|skipped)|Test Suites: +\d"
    r"|\d+ examples?, \d+ failures?|\d+ runs, \d+ assertions|FAILURES!\s*$|Tests: \d+, Assertions: \d"
    r"|\d+% tests passed, \d+ tests? failed|Test project /|not ok \d+ - |TAP version \d|ℹ (?:tests|pass|fail) \d"
    r"|[✔✖] .* \(\d+(?:\.\d+)?ms\)$"
)
# What such a line begins with, to spare most lines the regular expression.
_BANNER_OPENINGS = mark_openings("=== FAI ERR Ran --- ok err thr tes npm yar mak BUI Tes PAS not TAP".split())
# 127 is the code of all that is not ASCII: ticks and crosses.
_OPENS_BANNER = mark_codes("=0123456789>[\x7f")
# Lines that begin with a place, or stand indented: searched for only if the text has one of these pieces.
_PLACED_BANNER = re.compile(
    r"\S+\(\d+,\d+\): error TS\d+: |\S+:\d+:\d+ - error TS\d+: |\S+:\d+:\d+: (?:fatal )?error: "
)
_PLACED_PIECES = ("error TS", " error: ")
# The same for what stands indented: here two lines are needed.
_INDENTED_BANNER = re.compile(
    r"\s+(?:\d+ tests? (?:passed|failed)\s*$"
    r"|\d+ (?:passing|failing|pending)\b(?: \(\d+\w+\))?\s*$|(?:Test Files|Tests) {2}\d+ (?:failed|passed)"
    r"|[✓✔√✕✗✖×✘] \S|\d+:\d+ +(?:error|warning) {2,}\S|\d+/\d+ Test +#\d+: |FAIL {2}\S+|--> \S+:\d+:\d+$)"
)
_INDENTED_PIECES = (
    " passing",
    " failing",
    " passed",
    " failed",
    " error  ",
    " Test  ",
    " --> ",
    "✓ ",
    "✔ ",
    "√ ",
    "✕ ",
    "✖ ",
    "× ",
    "✘ ",
)
# A line of a log by its look: a time or a level first, the seconds of a kernel, an address and a time. Such lines count
# by their share.
_RECORD = re.compile(
    r"\s*+\[?(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d\b|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d)"
    r"|\[ *\d+\.\d{3,6}\] \S|\S+ \S+ \S+ \[\d\d?/[A-Z][a-z]{2}/\d{4}:\d\d:"
    r"|\s*+\[?(?:INFO|DEBUG|WARN|WARNING|ERROR|TRACE|FATAL|CRITICAL)\b\]?[: ]"
    r"|Traceback \(most|[E>] {3,}\S|\s+Compiling \S+ v\d|make(?:\[\d+\])?: "
)
_VERDICTS = ("PASSED", "FAILED", "SKIPPED")
_VERDICT = re.compile(rf".*\b(?:{'|'.join(_VERDICTS)})\b")
_RECORD_SHARE = 0.3
_LINTED_SHARE = 0.3
# A log is read as records if it has so many, and more than this share of its lines are.
_FEW_RECORDS = 100
_RECORDS_SHARE = 0.6
# What the output of a command says when it went wrong, if it is nothing else.
# A label `error:` and a name `ERROR = 1` are of programs, and `Error handling` is of a document.
_COMPLAINT = re.compile(
    r"Traceback \(most recent call last\)"
    r"|(?:\S+: )*(?:(?:PHP )?[Ff]atal )?(?:(?:error|Error|fatal)\b[:\[]|ERROR\b[:\[ ]) *+[^\s=(]"
)
# What linters print, if a text is the output of a command: a place and the code of a rule.
_LINTED = re.compile(r"\S+:\d+:\d+: [A-Z]{1,6}\d{2,4}:? \S")

_KEY = re.compile(
    r"E$|[E>] {2,}|([_=*#-])\1{2,} .*\w.* \1{2,}\s*$|_ .*\w.* _\s*$|_{3,} .*\w.* _{3,}"
    r"|(?:FAILED|ERROR|FAIL)\b(?::|\t| {1,2}\S)|--- FAIL|panic: |failures:$|FAILED \(|FAILURES!|Ran \d+ tests?"
    r"|\S+:\d+(?::\d+)?:(?: in \w.*| \w*(?:Error|Exception|Failed)\b.*| (?:fatal )?error\b.*|\s*)$"
    r"|\S+(?:\(\d+,\d+\):|:\d+:\d+ -) error\b|(?:=+ )?\d+ (?:failed|passed|errors?)\b.* in \d"
    r"|error(?:\[E\d+\])?: |test result: |thread '.*' .*panicked at |npm (?:ERR!|error) |make(?:\[\d+\])?: \*\*\* "
    r"|Traceback \(most recent|Caused by: |BUILD FAILED|FAILURE: |\* What went wrong|> Task \S+ FAILED|not ok \d"
    r"|(?:Test Suites|Test Files|Tests)(?:: +| {2,})\d|\d+% tests passed|The following tests FAILED|Found \d+ errors?"
    r"|\d+ (?:examples?|runs), \d"
    r"|\s*+(?:[\w.]+\.)?\w*(?:Error|Exception)(?: \[\w+\])?: \S"
    r"|\s+(?:\d+\) \S|\d+ (?:passing|failing|pending)\b|[✕✗✖×✘●❌]|\d+:\d+ +error {2,}\S|> +\d+ \||--> \S+:\d+:\d+"
    r"|Test Files {2}\d|Tests {2}\d|FAIL {2}\S|→ \S|\d+ - \S.* \((?:Failed|Timeout)|\S+\.\w+:\d+: \S)"
    r"|\s*+(?:[Ee]xpected|[Aa]ctual|[Rr]eceived|left|right|got|want|have|[Cc]aused by)\b(?: value)? *:"
    r"|●|✕|✖|⎯+ .*\w",
)
# The end of a build whose records all begin with a level.
_VERDICT_OF_ALL = re.compile(r"\[\w+\] (?:BUILD [A-Z]+|Tests run: (?!.*Time elapsed))")
_FRAME = re.compile(
    r"\s+(?:at .+|File \"[^\"]+\", line \d+|❯ .*\S+:\d+:\d+)|\S+\.\w+:\d+: in \w|\s+\d+: 0x|\s+\S+\.go:\d+"
)
_LIBRARY = re.compile(
    r"site-packages|dist-packages|node_modules|node:|/lib/python|<frozen |/rustc/|/\.cargo/|/usr/(?:local/)?lib/"
    r"|java\.base|jdk\.internal|org\.junit|sun\.reflect|internal/(?:modules|process|timers)"
)
_DIFF_HEAD = re.compile(
    r"\s*+(?:[-+] (?:expected|actual|Expected|Received)\b|.*\b(?:Difference|diff)\b *:|\+ actual - expected)"
)
_DIFF_LINE = re.compile(r"\s*+[-+](?![-+]{2})")
_NAMED_FAILURE = re.compile(r"\s*+● \S| FAIL {2}\S")
_ALARMS = ("error", "exception", "traceback", "fatal", "panic", "critical", "segfault", "assertion")
_ALARM = re.compile(r"(?i)^err$|fail(?:ed|ure|ures|s|ing)?$|abort(?:ed|ing)?$|errno|denied$|unreachable$|killed$")
# Every word that is an alarm contains one of these.
_ALARM_PIECES = ("err", *_ALARMS[1:], "fail", "abort", "denied", "unreachable", "killed")
_SUCCESS = re.compile(
    r"\b(?:PASSED|XPASS|XFAIL|SKIPPED)\b|\.\.\. ok\s*$|^\s*(?:--- PASS|ok\s|✓|✔|√|PASS\b)"
    r"|\b(?:0|no) (?:errors?|failures?|failed)\b(?!.*\b[1-9]\d* (?:errors?|fail))"
    r"|^(?!.*\b(?:Failures|Errors): [1-9]).*\bFailures: 0, Errors: 0\b"
)
_OPENS_DIFF = mark_codes("+-")
_LONGEST_LINE = 1000
# So many lines of the first reports of their kinds are kept whatever they say, and of the others what tells.
_MOST_OPENING_LINES = 300
_QUOTED_INDENT = 4
_DIFF_REACH = 60
_OWN_FRAMES = 8
_TAIL_LINES = 12
_TAIL_SCORE, _CONTEXT_SCORE, _KEY_SCORE, _FRAME_SCORE, _LIBRARY_SCORE = 0.5, 0.5, 2.0, 1.0, 0.2
_CONTEXT_REACH = 8.0


class LogLines(Struct, frozen=True):
    """`is_key` marks the lines that are always kept, and `scores` tells from 0 to 2 how much the others matter.

    `reports` are those whose repetitions need not be kept; there are none where every error is. `tells` marks what
    would be a key line if nothing were repeated.
    """

    is_key: Bools
    tells: Bools
    scores: Floats
    reports: tuple[LogReport, ...] = ()


def is_log(lines: LineArray, embedded: Bools, sample: list[str], *, is_output: bool) -> bool:
    """Whether a text is a log; `embedded` marks quoted lines, `sample` is some of its lines.

    With `is_output` the text is known to be the output of a command. Then a complaint at the margin is enough.
    """
    is_margin = ~embedded & ~lines.is_blank & (lines.indent == 0)
    may_be_banner = _BANNER_OPENINGS[lines.opening] | _OPENS_BANNER[lines.first]
    if lines.matching(_BANNER, np.flatnonzero(is_margin & may_be_banner), _LONGEST_LINE):
        return True
    if _has_any(lines.text, _PLACED_PIECES) and lines.matching(
        _PLACED_BANNER, np.flatnonzero(is_margin), _LONGEST_LINE
    ):
        return True
    if _has_any(lines.text, _INDENTED_PIECES):
        indented = np.flatnonzero(~embedded & ~lines.is_blank & (lines.indent > 0))
        if len(lines.matching(_INDENTED_BANNER, indented, _LONGEST_LINE)) > 1:
            return True
    verdicts = any(verdict in line for verdict in _VERDICTS for line in sample)
    records = sum(_RECORD.match(line) is not None or (verdicts and _VERDICT.match(line) is not None) for line in sample)
    if records > _RECORD_SHARE * len(sample):
        return True
    if not is_output:
        return False
    margin = np.flatnonzero(is_margin)
    return bool(lines.matching(_COMPLAINT, margin, _LONGEST_LINE)) or (
        len(lines.matching(_LINTED, margin, _LONGEST_LINE)) > _LINTED_SHARE * margin.size
    )


def read_log(lines: LineArray, words: Words, *, keeps_repeated: bool) -> LogLines:
    """Tell which lines of a log matter. Without `keeps_repeated`, of reports and records of one kind the first does."""
    total = len(lines)
    solid = np.flatnonzero(~lines.is_blank)
    is_frame = mark(lines.matching(_FRAME, solid, _LONGEST_LINE), total)
    is_library = np.zeros(total, dtype=np.bool_)
    is_library[[i for i in np.flatnonzero(is_frame).tolist() if _LIBRARY.search(lines.line(i)[:_LONGEST_LINE])]] = True
    is_key = mark(lines.matching(_KEY, solid, _LONGEST_LINE), total) & ~is_frame
    is_passed = mark([i for i in solid.tolist() if _SUCCESS.search(lines.line(i)[:_LONGEST_LINE])], total)
    is_alarm = _alarm_lines(lines, words) & ~is_passed & ~is_frame
    if np.any(is_key & (lines.first == ord("E"))):
        # The source that a test runner quotes is indented, and may well speak of errors.
        is_alarm &= lines.indent < _QUOTED_INDENT
    is_key &= ~is_passed
    is_key |= _with_neighbours(is_alarm & ~_mark_repeated(lines, is_alarm))
    is_key[_diff_lines(lines)] = True
    is_key[_titles(lines, np.flatnonzero(is_key))] = True
    is_key[_messages(lines, np.flatnonzero(is_key))] = True
    own = is_frame & ~is_library
    is_key |= _first_of_runs(own & ~_mark_repeated(lines, own), _OWN_FRAMES)
    tells = is_key
    reports: tuple[LogReport, ...] = ()
    if not keeps_repeated:
        records = np.array(lines.matching(_RECORD, solid, _LONGEST_LINE), dtype=np.int64)
        if records.size > max(_RECORDS_SHARE * solid.size, _FEW_RECORDS):
            is_rare, is_repeated = read_shapes(lines, records)
            is_key = (is_key & ~is_repeated) | is_rare | mark(lines.matching(_VERDICT_OF_ALL, records), total)
            is_alarm &= ~is_repeated
        reports = tuple(find_reports(lines))
        is_key = is_key & ~mark_lines([report for report in reports if report.is_repeated], total)
        openings = [line for report in reports if not report.is_repeated for line in report.opening]
        is_key |= mark(openings[:_MOST_OPENING_LINES], total) & ~is_library
        is_alarm &= ~mark_lines(reports, total)
    scores = _scores(lines, is_key | is_alarm)
    scores[is_frame] = _FRAME_SCORE
    scores[is_library] = _LIBRARY_SCORE
    scores[is_passed & ~is_key] = 0.0
    scores[mark_lines([report for report in reports if report.is_repeated], total)] = 0.0
    scores[is_key] = _KEY_SCORE
    return LogLines(is_key=is_key, tells=tells, scores=scores, reports=reports)


def _alarm_lines(lines: LineArray, words: Words) -> Bools:
    """Mark the lines with a word that reports an error."""
    start, end = words.containing(_ALARM_PIECES)
    spellings = words.spellings(start, end)
    alarms = {word for word in set(spellings) if _is_alarm(word)}
    offsets = start[np.array([word in alarms for word in spellings], dtype=np.bool_)]
    return mark(np.unique(lines.line_of(offsets)), len(lines))


def _is_alarm(word: str) -> bool:
    lowered = word.lower()
    return any(alarm in lowered for alarm in _ALARMS) or _ALARM.search(word) is not None


def _with_neighbours(is_marked: Bools) -> Bools:
    """Mark also the line before and the line after each marked line."""
    around = is_marked.copy()
    around[:-1] |= is_marked[1:]
    around[1:] |= is_marked[:-1]
    return around


def _mark_repeated(lines: LineArray, is_marked: Bools) -> Bools:
    """Those of the marked lines that stand word for word further up, marked."""
    seen: set[str] = set()
    repeated: list[int] = []
    for i in np.flatnonzero(is_marked).tolist():
        line = lines.line(i)
        if line in seen:
            repeated.append(i)
        seen.add(line)
    return mark(repeated, len(lines))


def _diff_lines(lines: LineArray) -> list[int]:
    """The lines of expected and actual values, behind the head of a comparison."""
    opens = np.flatnonzero(_OPENS_DIFF[lines.first] & ~lines.is_blank)
    if opens.size == 0:
        return []
    found: set[int] = set()
    for head in lines.matching(_DIFF_HEAD, np.flatnonzero(~lines.is_blank), _LONGEST_LINE):
        behind = opens[np.searchsorted(opens, head) : np.searchsorted(opens, head + _DIFF_REACH)]
        found.update([head, *lines.matching(_DIFF_LINE, behind)])
    return sorted(found)


def _titles(lines: LineArray, keys: Ints) -> list[int]:
    """The further lines of a numbered failure's title: suites, then the test."""
    numbered = lines.matching(NUMBERED, keys, _LONGEST_LINE)
    return [line for number in numbered for line in range(number + 1, end_of_title(lines, number) + 1)]


def _messages(lines: LineArray, keys: Ints) -> list[int]:
    """The line behind the name of a failed test, blank lines aside: it says what went wrong."""
    solid = np.flatnonzero(~lines.is_blank)
    named = np.array(lines.matching(_NAMED_FAILURE, keys, _LONGEST_LINE), dtype=np.int64)
    behind: list[int] = solid[np.minimum(np.searchsorted(solid, named, side="right"), solid.size - 1)].tolist()
    return behind


def _first_of_runs(is_marked: Bools, most: int) -> Bools:
    """The first `most` of each run of marked lines."""
    numbers = np.arange(is_marked.size)
    last_unmarked = np.maximum.accumulate(np.where(is_marked, -1, numbers))
    return is_marked & (numbers - last_unmarked <= most)


def _scores(lines: LineArray, is_near: Bools) -> Floats:
    """Fall with the distance to a line that matters. The last lines score, too: a log often ends with its summary."""
    total = len(lines)
    scores: Floats = np.zeros(total)
    scores[max(total - _TAIL_LINES, 0) :] = _TAIL_SCORE
    places = np.flatnonzero(is_near)
    if places.size == 0:
        return scores
    numbers = np.arange(total)
    following = places[np.minimum(np.searchsorted(places, numbers), places.size - 1)]
    preceding = places[np.maximum(np.searchsorted(places, numbers, side="right") - 1, 0)]
    distance = np.minimum(np.abs(following - numbers), np.abs(numbers - preceding))
    near: Floats = np.maximum(scores, _CONTEXT_SCORE * np.exp(-distance / _CONTEXT_REACH))
    return near


def _has_any(text: str, pieces: tuple[str, ...]) -> bool:
    return any(piece in text for piece in pieces)
