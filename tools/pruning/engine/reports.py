"""The reports of a log: what a test runner says of one failed test, and what a compiler or a linter says of one place.

Of many reports of one kind a reader needs one whole and the number of the others. So every report has a kind: of a
failed test what went wrong, of a place the code or the wording of the diagnostic, both without numbers.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tools.pruning.engine.text_arrays import Bools, LineArray, mark

# What begins a report that reaches to the next one, or to a rule.
_SECTION = re.compile(
    r"_{3,} (?P<pytest>\S.*?) _{3,}\s*$|(?:FAIL|ERROR): (?P<unittest>\w+) \([\w.]+\)| FAIL {2}(?P<vitest>\S.*)"
    r"|-{4} (?P<cargo>\S.*) stdout -{4}\s*$"
)
_RULE = re.compile(r"={3,}|⎯{5,}|failures:\s*$|test result: |Ran \d+ tests?\b| {2}─\s*$")
# AVA prints the name of a test, and two lines below it the place.
_AVA_PLACE = re.compile(r" {2}(?:\S+\.[cm]?[jt]sx?:\d+|(?:Error thrown in|Rejected promise returned by) test:)\s*$")
# What begins a report that reaches as far as lines are indented below it.
_FAILURE = re.compile(
    r"\s*(?:--- FAIL: |not ok \d+ -? ?)(?P<go>\S.*)|\s+(?:●|✘ \[fail\]:|×|✕) (?P<jest>\S.*)|\s*✖ (?P<node>\S.*)"
    r"|\s+\d+\) (?P<mocha>\S.*)|(?:FAILED|ERROR) (?P<summary>[^\s(]\S*)|test (?P<rust>\S+) \.\.\. FAILED"
    r"|\[ERROR\] (?P<maven>\S+?)(?:\([\w.$]+\))? (?:--| ) ?Time elapsed"
    r"|\[ERROR\] {2,3}(?P<surefire>[\w.$]+(?:\[[^\]]*\])?:\d+)\b|(?P<trace>Traceback) \(most recent call last\)"
)
_DIAGNOSTIC = re.compile(
    r"(?P<rustc>(?:error|warning)(?:\[\w+\])?): (?!could not compile|aborting|test failed|\d+ warning|`\S+` \()"
    r"|(?P<place>\S+?(?::\d+(?::\d+)?:|\(\d+,\d+\):|:\d+:\d+ -)) (?:fatal )?(?:error|warning|[A-Z]{1,6}\d{2,4}\b)"
    r"|\s+(?P<eslint>\d+:\d+) +(?:error|warning) {2,}"
)
# ruff prints the rule and the message, and below them the place.
_RUFF_PLACE = re.compile(r" +--> (?P<ruff>\S+:\d+:\d+)$")
_RUFF_HEAD = re.compile(r"(?:[A-Z]{1,6}\d{2,4}|[a-z-]+:) \S")
# tsc, for a terminal: a blank line, then the source behind its number.
_PRETTY = re.compile(r":\d+:\d+ - error TS\d+: ")
_SOURCE = re.compile(r"\d+ ")
# In which file what follows is, in front of a note of the report above it or of a report of its own.
_INCLUDED = re.compile(r"In file included from |\s+from \S+:\d+")
# What a compiler says before a report: in which function it is, and by which files it was read.
_INTRODUCES = re.compile(r"\S+: (?:In|At) .*:$|In file included from |\s+from \S+:\d+")
_NOTE = re.compile(r"\S+:\d+(?::\d+)?: note: ")
# A line at the margin that goes on with the report above it: a source line behind its number, a note.
_GOES_ON = re.compile(
    r"\s*\d* *\||(?:note|help): |\S+:\d+(?::\d+)?: note: |[\w.]+(?:Error|Exception|Failure)\b|Caused by: "
)
_WARNING = re.compile(r"warning\b|\S+ warning\b|\s+\d+:\d+ +warning\b")
# What a report says went wrong: the lines that tell its kind.
_MESSAGE = re.compile(
    r"\s*(?:[\w.]+\.)?\w*(?:Error|Exception|Panic)\b|\s*(?:assertion|error|reason|left|right)\b.*[:=]"
    r"|\s*[-+](?![-+]{2}) *\S|\s*(?:[Ee]xpected|[Aa]ctual|[Rr]eceived)\b.*:"
)
_PYTEST_MESSAGE = re.compile(r"E {2,}\S")
# The message of a panic stands on the next line.
_PANICKED = re.compile(r"thread '.*' (?:\(\d+\) )?panicked at \S+:\d+:\d+:$")
_FRAME = re.compile(r"\s*(?:at |File \"|\d+: |❯ )")
_UNKNOWN_LINES = 3
# The message is the text below, in YAML.
_OPENS_BLOCK = re.compile(r".*: [|>][-+]?\d?$")
_BLOCK_LINES = 3
_MESSAGE_LINES = 6
# A failure that is numbered, as by mocha.
NUMBERED = re.compile(r"\s+\d+\) \S")
_LONGEST_TITLE = 6
# The code of a diagnostic: at its end, behind its severity, or as the rule of a linter.
_CODE = re.compile(
    r"\[(-W[\w=+-]+|[a-z]+(?:-[a-z]+)*)\]\s*$|\b(?:error|warning)\[(\w+)\]|\berror (TS\d+)|: ([A-Z]{1,6}\d{2,4})[: ]"
)
_LABEL = re.compile(r"\|.*[\^-] (\S.*)")
_LINTER_RULE = re.compile(r".* {2,}([\w@/-]+)\s*$")
_QUOTED = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|‘[^’]*’")
_WORD = re.compile(r"[^\W\d]")
# How long a test took, behind its name.
_DURATION = re.compile(r"\s+\(?[\d.]+ ?m?s\)?$")
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
# A longer report is kept as far as its lines tell something. One of a failed test has source and variables, too.
_WHOLE_FAILURE, _WHOLE_DIAGNOSTIC = 32, 60
_LONGEST_LINE = 1000
_LONGEST_REPORT = 400
_LONGEST_NAME = 60
_FEW_OF_KIND = 3
_MOST_NAMES = 8
_MOST_REPORTS = 20_000


class LogReport(Struct, frozen=True):
    """Lines `first` to `last`, from 0, both included; its title is `first` to `title`.

    `like` is where the first report of its kind begins.
    """

    first: int
    last: int
    name: str
    kind: str
    is_failure: bool
    like: int
    title: int

    @property
    def is_repeated(self) -> bool:
        return self.like != self.first

    @property
    def is_short(self) -> bool:
        """Whether it is kept whole or not at all."""
        return self.last - self.first < self._most_lines

    @property
    def opening(self) -> range:
        """Its first lines, as many as are kept whatever they say."""
        return range(self.first, min(self.last + 1, self.first + self._most_lines))

    @property
    def _most_lines(self) -> int:
        return _WHOLE_FAILURE if self.is_failure else _WHOLE_DIAGNOSTIC


def find_reports(lines: LineArray) -> list[LogReport]:
    """The reports of a log, in order; no two of them share a line."""
    solid = np.flatnonzero(~lines.is_blank)
    sections = {line: _name(_SECTION, lines, line) for line in lines.matching(_SECTION, solid, _LONGEST_LINE)}
    for place in lines.matching(_AVA_PLACE, solid, _LONGEST_LINE):
        if place > 1 and lines.is_blank[place - 1] and not lines.is_blank[place - 2]:
            sections[place - 2] = lines.line(place - 2).strip()
    diagnostics = {line: _name(_DIAGNOSTIC, lines, line) for line in lines.matching(_DIAGNOSTIC, solid, _LONGEST_LINE)}
    for place in lines.matching(_RUFF_PLACE, solid, _LONGEST_LINE):
        if place > 0 and _RUFF_HEAD.match(lines.line(place - 1)[:_LONGEST_LINE]):
            diagnostics[place - 1] = _name(_RUFF_PLACE, lines, place)
    failures = {line: _name(_FAILURE, lines, line) for line in lines.matching(_FAILURE, solid, _LONGEST_LINE)}
    heads = failures | diagnostics | sections
    if len(heads) > _MOST_REPORTS:
        return []
    ends = np.array(sorted({*sections, *lines.matching(_RULE, solid, _LONGEST_LINE), len(lines)}))
    reports: list[LogReport] = []
    firsts: dict[str, int] = {}
    after = 0
    for head in sorted(heads):
        if head < after:
            continue
        if reports and not any(_WORD.search(lines.line(line)) for line in range(after, head)):
            # The rule between two reports goes with the first.
            reports[-1] = replace(reports[-1], last=head - 1)
        is_failure = head in sections or head not in diagnostics
        if head in sections:
            after = min(int(ends[np.searchsorted(ends, head, side="right")]), head + _LONGEST_REPORT)
        else:
            is_pretty = _PRETTY.search(lines.line(head)[:_LONGEST_LINE]) is not None
            after = _end_of_block(lines, head, heads, crosses_blanks=is_failure or is_pretty, has_source=is_pretty)
        last = after - 1
        while lines.is_blank[last]:
            last -= 1
        title = end_of_title(lines, head) if NUMBERED.match(lines.line(head)[:_LONGEST_LINE]) else head
        first = head if is_failure else _first_line(lines, head, reports[-1].last + 1 if reports else 0)
        found = lines.line(title).strip(": ") if title > head else heads[head]
        name = _DURATION.sub("", found).rpartition("::")[2][:_LONGEST_NAME]
        kind = _kind_of_failure(lines, head, last, found) if is_failure else _kind_of_diagnostic(lines, head, last)
        reports.append(LogReport(first, last, name, kind, is_failure, firsts.setdefault(kind, first), title))
    counts = Counter(report.kind for report in reports)
    # A few of one kind are no repetition.
    return [each if counts[each.kind] > _FEW_OF_KIND else replace(each, like=each.first) for each in reports]


def end_of_title(lines: LineArray, head: int) -> int:
    """The last line of the title of a numbered failure: below its suites the test is named, and a colon ends it.

    `head` where the title has one line.
    """
    for line in range(head + 1, min(head + 1 + _LONGEST_TITLE, len(lines))):
        if lines.is_blank[line] or lines.indent[line] <= lines.indent[head]:
            break
        if lines.last[line] == ord(":"):
            return line
    return head


def mark_lines(reports: Iterable[LogReport], total: int) -> Bools:
    """Mark the lines of these reports."""
    return mark([line for report in reports for line in range(report.first, report.last + 1)], total)


def describe(reports: Sequence[LogReport]) -> str:
    """Repeated reports in a few words: how many are like which, and what they are called."""
    like, count = Counter(report.like for report in reports).most_common(1)[0]
    names = [report.name for report in reports if report.like == like and report.name]
    more = ["…"] if len(names) > _MOST_NAMES else []
    others = f"; {len(reports) - count} others" if len(reports) > count else ""
    return f"{count} more like line {like + 1}: {', '.join(names[:_MOST_NAMES] + more)}{others}"


def _name(pattern: re.Pattern[str], lines: LineArray, line: int) -> str:
    match = pattern.match(lines.line(line)[:_LONGEST_LINE])
    name = "" if match is None else next(filter(None, match.groups()), "").strip(": ")
    if match is not None and match.groupdict().get("rustc") and line + 1 < len(lines):
        return lines.line(line + 1)[:_LONGEST_LINE].strip("-> ")
    return name


def _end_of_block(lines: LineArray, head: int, heads: Container[int], *, crosses_blanks: bool, has_source: bool) -> int:
    """The line behind a report that reaches as far as lines are indented more, or go on with it.

    With `has_source`, lines of the source with their numbers belong to it.
    """
    after = head + 1
    for line in range(head + 1, min(len(lines), head + _LONGEST_REPORT)):
        if lines.is_blank[line]:
            if crosses_blanks:
                continue
            break
        if line in heads and lines.indent[line] <= lines.indent[head]:
            break
        is_inside = lines.indent[line] > lines.indent[head] or (
            has_source and _SOURCE.match(lines.line(line)[:_LONGEST_LINE])
        )
        if not is_inside and (after < line or not _goes_on(lines, line)):
            break
        after = line + 1
    return after


def _first_line(lines: LineArray, head: int, after: int) -> int:
    """The first of the lines right above a diagnostic that tell where it is; none before line `after`."""
    first = head
    while first > after and _INTRODUCES.match(lines.line(first - 1)[:_LONGEST_LINE]):
        first -= 1
    return first


def _goes_on(lines: LineArray, line: int) -> bool:
    """Whether a line at the margin belongs to the report above it."""
    text = lines.line(line)[:_LONGEST_LINE]
    if not text.startswith("In file included from "):
        return _GOES_ON.match(text) is not None
    while line + 1 < len(lines) and _INCLUDED.match(lines.line(line)[:_LONGEST_LINE]):
        line += 1
    return _NOTE.match(lines.line(line)[:_LONGEST_LINE]) is not None


def _kind_of_failure(lines: LineArray, head: int, last: int, name: str) -> str:
    """What went wrong, without numbers; of a failure that does not say it, how it begins."""
    body = np.arange(head + 1, last + 1)
    said = lines.matching(_PYTEST_MESSAGE, body, _LONGEST_LINE)
    if not said:
        panics = lines.matching(_PANICKED, body, _LONGEST_LINE)
        said = [*lines.matching(_MESSAGE, body, _LONGEST_LINE), *(line + 1 for line in panics)]
        blocks = lines.matching(_OPENS_BLOCK, np.array(said, dtype=np.int64), _LONGEST_LINE)
        said = sorted({*said, *(line for head in blocks for line in range(head + 1, head + 1 + _BLOCK_LINES))})
        said = [line for line in said if line <= last and not lines.is_blank[line]]
    if not said:
        frames = set(lines.matching(_FRAME, body, _LONGEST_LINE))
        said = [line for line in body.tolist() if not lines.is_blank[line] and line not in frames][:_UNKNOWN_LINES]
    if not said:
        return _look_of_title(lines.line(head)[:_LONGEST_LINE], name)
    text = "\n".join(lines.line(line)[:_LONGEST_LINE] for line in said[:_MESSAGE_LINES])
    return _NUMBER.sub("0", text.replace(name, "") if name else text)


def _kind_of_diagnostic(lines: LineArray, head: int, last: int) -> str:
    line = lines.line(head)[:_LONGEST_LINE]
    severity = "warning" if _WARNING.match(line) else "error"
    if line.startswith("error["):
        # Of one code of rustc there are many kinds: the labels under the source say which.
        labels = (_LABEL.search(lines.line(below)[:_LONGEST_LINE]) for below in range(head + 1, last + 1))
        return f"{line[:12]} {_NUMBER.sub('0', ' '.join(label[1] for label in labels if label))}"
    code = _CODE.search(line) or _LINTER_RULE.match(line)
    if code is not None:
        return f"{severity} {next(filter(None, code.groups()))}"
    message = line.partition(" ")[2] if not line.startswith((" ", "error", "warning")) else line
    return f"{severity} {_NUMBER.sub('0', _QUOTED.sub('', message))}"


def _look_of_title(line: str, name: str) -> str:
    """What precedes the name, and the message that a line of a summary has behind it."""
    mark_of_line = line.split(maxsplit=1)[0] if line.strip() else ""
    _, dash, message = line.partition(" - ")
    behind = message if dash else _DURATION.sub("", line.partition(name)[2]) if name else ""
    return f"{mark_of_line} {_NUMBER.sub('0', behind)}"
