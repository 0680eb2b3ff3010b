"""Whether a text is code, a log or a document, for callers that do not say."""

import re

import numpy as np

from tools.pruning.engine.arrays import Bools
from tools.pruning.engine.headings import code_blocks
from tools.pruning.engine.layout import Layout
from tools.pruning.engine.selection import SourceType

_SAMPLE_LINES = 150
_SAMPLE_CHARS = 400
_LOG_SHARE = 0.3
_LOG = re.compile(
    r"\s*+\[?(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d\b|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d)"
    r"|\s*+\[?(?:INFO|DEBUG|WARN|WARNING|ERROR|TRACE|FATAL|CRITICAL)\b\]?[: ]"
    r"|test .* \.\.\. (?:ok|FAILED)$|(?:---|===) (?:RUN|PASS|FAIL)\b|={5,} .* ={5,}$"
    r"|Traceback \(most|[E>] {3,}\S|npm ERR!|\s+Compiling \S+ v\d|make(?:\[\d+\])?: "
)
_VERDICTS = ("PASSED", "FAILED", "SKIPPED")
_VERDICT = re.compile(rf".*\b(?:{'|'.join(_VERDICTS)})\b")
_CODE_ENDS = (";", "{", "}", "(")
_CODE = re.compile(
    r"(?://|/\*|\*/|# ?(?:include|define|undef|pragma|if|ifn?def|else|elif|endif)\b"
    r"|#!|#\[|[})\]@])|[\w.\[\]]+ (?:[:+|]?=) "
    r"|(?:def|class|import|from|return|if|for|while|func|fn|let|const|var|pub|use|package|public|private|static|struct"
    r"|type|else|elif|try|except|raise|impl|enum|trait|module|export|async|function|interface|mod)\b.*[:;,{}()\w\"'>*]$"
)
_COMMENT_OPENS = re.compile(r"\s*/\*")
_DOCUMENT_MARK = re.compile(r"#{2,6} \S|```|~~~|\.\. [\w-]+::|\.\. _|[=\-~^]{3,}\s*$|\|.*\|\s*$|\[!\[|\[[^\]]+\]: ")
_ITEM = re.compile(r"(?:[-*+>]|\d+[.)]) +\S|:\w+:`|\[[^\]]+\]\(")
_PROSE = re.compile(r"(?!#)\W{0,3}\w+(?:[^\w;{}=]{1,4}\w+){4}")


def detect(layout: Layout, quoted: Bools) -> SourceType:
    """Weigh the lines of a sample spread over the text; `quoted` marks the lines of triple-quoted strings.

    Between code and documents only lines at the margin count: code blocks and examples make no program of a manual,
    and comments under a definition make no manual of a program.
    """
    sample = _sampled(layout, ~layout.is_blank)
    verdicts = any(verdict in line for verdict in _VERDICTS for line in sample)
    logged = sum(_LOG.match(line) is not None or (verdicts and _VERDICT.match(line) is not None) for line in sample)
    if logged > _LOG_SHARE * len(sample):
        return "logs"
    code = document = 0
    for line in _sampled(layout, ~layout.is_blank & (layout.indent == 0) & ~_set_apart(layout, quoted)):
        if _DOCUMENT_MARK.match(line):
            document += 2
        elif line.rstrip().endswith(_CODE_ENDS) or _CODE.match(line):
            code += 1
        elif _ITEM.match(line) or _PROSE.match(line):
            document += 1
    return "code" if code >= document and code > 0 else "docs"


def _sampled(layout: Layout, among: Bools) -> list[str]:
    lines = np.flatnonzero(among)
    lines = lines[:: max(1, lines.size // _SAMPLE_LINES)]
    starts = layout.start[lines]
    ends = np.minimum(layout.end[lines], starts + _SAMPLE_CHARS)
    text = layout.text
    return [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _set_apart(layout: Layout, quoted: Bools) -> Bools:
    """Mark what stands in quotes, block comments and code blocks: it may look like anything."""
    apart = quoted.copy()
    for first, last in code_blocks(layout):
        apart[first + 1 : last + 1] = True
    opens = set(layout.matching(_COMMENT_OPENS, np.flatnonzero(layout.first == ord("/"))))
    if not opens:
        return apart
    may_close = (layout.first == ord("/")) | (layout.first == ord("*")) | (layout.last == ord("/"))
    opened = -1
    for i in np.flatnonzero(may_close).tolist():
        if opened < 0 and i in opens:
            opened = i
        if opened >= 0 and "*/" in layout.line(i):
            apart[opened : i + 1] = True
            opened = -1
    return apart
