"""What a log says went wrong: the lines that report an error and the lines that belong to the report."""

import re

import numpy as np

from tools.pruning.engine.arrays import Bools, Floats
from tools.pruning.engine.layout import Layout
from tools.pruning.engine.words import Words

_ALARMS = ("error", "exception", "traceback", "fatal", "panic", "critical", "segfault", "assertion")
_ALARM_PIECES = (*_ALARMS, "err", "fail", "abort", "denied", "unreachable", "killed")
_ALARM = re.compile(r"(?i)^err$|fail(?:ed|ure|ures|s|ing)?$|abort(?:ed|ing)?$|errno|denied$|unreachable$|killed$")
_SUCCESS = re.compile(
    r"\b(?:PASSED|XPASS|XFAIL|SKIPPED)\b|\.\.\. ok\s*$|^\s*(?:--- PASS|ok\s|✓|✔|√|PASS\b)"
    r"|\b(?:0|no) (?:errors?|failures?|failed)\b(?!.*\b[1-9]\d* (?:errors?|fail))"
)
_DETAIL = re.compile(
    r"(?:>|E) {2,}|E$|\s+at \S|\s+File \"|\s*(?:left|right|expected|actual|got|want|received|caused by)\b\s*:?"
    r"|\S+:\d+(?::\d+)?(?::|\)?$)",
    re.IGNORECASE,
)
_BANNER = re.compile(r"([_=*#-])\1{2,} .*\w.* \1{2,}\s*$|_ .*\w.* _\s*$")
_BEFORE = 1
_AFTER = 1
_REACH = 40
_TAIL = 12
_LONGEST_LINE = 1000


def failure_lines(layout: Layout, words: Words) -> Bools:
    """Mark the lines that report an error. A line that reports success does not, whatever the words in it."""
    start, end = words.holding(_ALARM_PIECES)
    spelled = words.spelled(start, end)
    alarms = {word for word in set(spelled) if _alarms(word)}
    begins = start[np.array([word in alarms for word in spelled], dtype=np.bool_)]
    candidates = np.unique(layout.line_of(begins)).tolist()
    reports = np.zeros(len(layout), dtype=np.bool_)
    reports[[i for i in candidates if not _SUCCESS.search(layout.line(i), 0, _LONGEST_LINE)]] = True
    return reports


def with_context(reports: Bools) -> Bools:
    """Add the line before each report and the line after it."""
    around = reports.copy()
    for distance in range(1, _BEFORE + 1):
        around[:-distance] |= reports[distance:]
    for distance in range(1, _AFTER + 1):
        around[distance:] |= reports[:-distance]
    return around


def failure_worth(layout: Layout, reports: Bools) -> Floats:
    """Rate every line by how much it belongs to a report, from 0 to 2: its details, its title, its neighbourhood."""
    total = len(layout)
    at = np.flatnonzero(reports)
    worth: Floats = np.zeros(total)
    worth[max(total - _TAIL, 0) :] = 0.5
    if at.size == 0:
        return worth
    lines = np.arange(total)
    following = at[np.minimum(np.searchsorted(at, lines), at.size - 1)]
    preceding = at[np.maximum(np.searchsorted(at, lines, side="right") - 1, 0)]
    distance = np.minimum(np.abs(following - lines), np.abs(lines - preceding))
    worth = np.maximum(worth, 0.5 * np.exp(-distance / 8.0))
    near = np.flatnonzero(distance <= _REACH)
    worth[layout.matching(_DETAIL, near, _LONGEST_LINE)] = 2.0
    worth[layout.matching(_BANNER, near, _LONGEST_LINE)] = 2.0
    return worth


def _alarms(word: str) -> bool:
    lowered = word.lower()
    return any(alarm in lowered for alarm in _ALARMS) or _ALARM.search(word) is not None
