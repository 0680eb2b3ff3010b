"""Whether a text is code, a log or a document, for callers that do not say."""

import re

import numpy as np

from tools.pruning.engine.headings import code_blocks
from tools.pruning.engine.layout import Bools, Layout
from tools.pruning.engine.selection import SourceType
from tools.pruning.engine.structure import in_triple_quotes

_SAMPLE_LINES = 150
_SAMPLE_CHARS = 400
_LOG_SHARE = 0.3
_LOG = re.compile(
    r"\s*+\[?(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d\b|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d)"
    r"|\s*+\[?(?:INFO|DEBUG|WARN|WARNING|ERROR|TRACE|FATAL|CRITICAL)\b\]?[: ]"
    r"|.*\b(?:PASSED|FAILED|SKIPPED)\b|test .* \.\.\. (?:ok|FAILED)$|(?:---|===) (?:RUN|PASS|FAIL)\b|={5,} .* ={5,}$"
    r"|Traceback \(most|[E>] {3,}\S|npm ERR!|\s+Compiling \S+ v\d|make(?:\[\d+\])?: "
)
_CODE = re.compile(
    r"(?://|/\*|\*/|# ?(?:include|define|undef|pragma|if|ifn?def|else|elif|endif)\b"
    r"|#!|#\[|[})\]@])|.*[;{}(]\s*$|[\w.\[\]]+ (?:[:+|]?=) "
    r"|(?:def|class|import|from|return|if|for|while|func|fn|let|const|var|pub|use|package|public|private|static|struct"
    r"|type|else|elif|try|except|raise|impl|enum|trait|module|export|async|function|interface|mod)\b.*[:;,{}()\w\"'>*]$"
)
_DOCUMENT_MARK = re.compile(r"#{2,6} \S|```|~~~|\.\. [\w-]+::|\.\. _|[=\-~^]{3,}\s*$|\|.*\|\s*$|\[!\[|\[[^\]]+\]: ")
_ITEM = re.compile(r"(?:[-*+>]|\d+[.)]) +\S|:\w+:`|\[[^\]]+\]\(")
_PROSE = re.compile(r"(?!#)\W{0,3}\w+(?:[^\w;{}=]{1,4}\w+){4}")


def detect(layout: Layout) -> SourceType:
    """Weigh the lines of a sample spread over the text.

    Between code and documents only lines at the margin count: code blocks and examples make no program of a manual,
    and comments under a definition make no manual of a program.
    """
    solid = np.flatnonzero(~layout.is_blank)
    sample = solid[:: max(1, solid.size // _SAMPLE_LINES)].tolist()
    if sum(_LOG.match(layout.lines[i], 0, _SAMPLE_CHARS) is not None for i in sample) > _LOG_SHARE * len(sample):
        return "logs"
    flush = np.flatnonzero(~layout.is_blank & (layout.indent == 0) & ~_set_apart(layout))
    code = document = 0
    for i in flush[:: max(1, flush.size // _SAMPLE_LINES)].tolist():
        line = layout.lines[i][:_SAMPLE_CHARS]
        if _DOCUMENT_MARK.match(line):
            document += 2
        elif _CODE.match(line):
            code += 1
        elif _ITEM.match(line) or _PROSE.match(line):
            document += 1
    return "code" if code >= document and code > 0 else "docs"


def _set_apart(layout: Layout) -> Bools:
    """Mark what stands in quotes, block comments and code blocks: it may look like anything."""
    apart = in_triple_quotes(layout)
    for first, last in code_blocks(layout):
        apart[first + 1 : last + 1] = True
    opened = -1
    for i in np.flatnonzero(np.isin(layout.first, [ord("/"), ord("*")]) | (layout.last == ord("/"))).tolist():
        line = layout.lines[i]
        if opened < 0 and line.lstrip().startswith("/*"):
            opened = i
        if opened >= 0 and "*/" in line:
            apart[opened : i + 1] = True
            opened = -1
    return apart
