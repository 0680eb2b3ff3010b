"""What a log says went wrong: the lines that report an error and the lines that belong to the report."""

import re

import numpy as np

from tools.pruning.engine.layout import Bools, Floats, Layout
from tools.pruning.engine.words import words_with

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


def failure_lines(layout: Layout) -> Bools:
    """Mark the lines that report an error. A line that reports success does not, whatever the words in it."""
    found = words_with(_ALARM_PIECES, layout)
    is_alarm = np.array([_alarms(word) for word in found.spelled], dtype=np.bool_)
    reports = np.zeros(len(layout), dtype=np.bool_)
    candidates = np.unique(found.line[is_alarm[found.word]]).tolist()
    reports[[i for i in candidates if not _SUCCESS.search(layout.lines[i], 0, _LONGEST_LINE)]] = True
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
    near = np.flatnonzero(distance <= _REACH).tolist()
    worth[[i for i in near if _DETAIL.match(layout.lines[i], 0, _LONGEST_LINE)]] = 2.0
    worth[[i for i in near if _BANNER.match(layout.lines[i], 0, _LONGEST_LINE)]] = 2.0
    return worth


def _alarms(word: str) -> bool:
    lowered = word.lower()
    return any(alarm in lowered for alarm in _ALARMS) or _ALARM.search(word) is not None
