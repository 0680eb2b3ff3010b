"""Which lines open a definition, and which definition each line belongs to.

Definitions are recognised by the pattern of their first line and bounded by indentation, in any language that
indents its blocks. No grammar is consulted: a file that does not parse is pruned like any other.
"""

import re

import numpy as np

from tools.kit.records import record
from tools.pruning.engine.arrays import Bools, Ints
from tools.pruning.engine.layout import Layout, Openings

_MODIFIERS = (
    r"(?:(?:pub(?:\([^)]*\))?|export|default|public|private|protected|internal|static|final|abstract|async|unsafe"
    r"|extern|const|override|virtual|inline|sealed|synchronized|open|suspend|data|partial|declare)\s+)"
)
_KEYWORDS = (
    r"(?:def|class|func|fn|fun|function|impl|struct|enum|trait|interface|mod|module|namespace|type|macro_rules!|object"
    r"|record|protocol|extension)\b[\s<*(]+[\w<$(]"
)
_NAMED = rf"{_KEYWORDS}|{_MODIFIERS}+(?:{_KEYWORDS}|[\w<>\[\],.?&@ ]+\()"
_BRACED = (
    r"(?!(?:if|for|while|switch|catch|return|else|do|with|match|elif|using|lock|loop|go|defer|select|await|yield|new)\b)"
    r"(?:[\w<>\[\],.?&]+\s+)*\w+\([^;]*\)[^;=]*\{\s*$"
    r"|[^=;/*#]*(?:=|\(|:|,)\s*(?:async\s+)?(?:function\b[^;]*|(?:\([^()]*\)|\w+)\s*=>)\s*\{\s*$"
)
_HEADER = re.compile(rf"\s*+(?:{_NAMED}|{_BRACED})")
_PLAIN_HEADER = re.compile(rf"\s*+(?:{_NAMED})")
_IMPORT = re.compile(
    r"\s*+(?:import\b|from\s+\S+\s+import\b|(?:pub\s+)?use\s+\w|#include\b|package\s|extern\s+crate\b|require\b"
    r"|(?:const|let|var)\s.*=\s*require\()"
)
_LONGEST_HEADER = 400
_FEW_LINES = 100
# What a line begins with on which a definition opens, unless it ends in a brace.
_HEADER_WORDS = (
    "def class func fn fun function impl struct enum trait interface mod module namespace type macro_rules object"
    " protocol extension pub export default public private protected internal static final abstract async unsafe"
    " extern override virtual inline sealed synchronized open suspend data partial declare"
).split()
_IMPORT_WORDS = "import from use pub #include package extern require".split()
_REQUIRING_WORDS = "const let var".split()
_CONTINUES = np.zeros(128, dtype=np.bool_)
_CONTINUES[[ord(c) for c in "})]{"]] = True
_LEADS = np.zeros(128, dtype=np.bool_)
_LEADS[[ord(c) for c in "#@/*"]] = True
_OPENINGS = Openings(_HEADER_WORDS, _IMPORT_WORDS, _REQUIRING_WORDS)


@record
class Structure:
    """`scope[i]` is the line of the innermost header around line i (its own line for a header), or -1.

    Comments and decorators directly above a header have the header's scope. `parent` has the header around the
    scope of each header line, or -1; it says nothing of other lines.
    """

    is_header: Bools
    is_import: Bools
    is_comment: Bools
    scope: Ints
    parent: Ints


def structure_of(layout: Layout, quoted: Bools) -> Structure:
    """Find the definitions of a text; `quoted` marks the lines of triple-quoted strings."""
    total = len(layout)
    is_comment = _LEADS[layout.first] | quoted
    has_brace = (layout.last == ord("{")) & ~is_comment
    may_open, may_import, may_require = _OPENINGS.of(layout)
    is_plain = may_open & ~is_comment & ~has_brace
    is_header = np.zeros(total, dtype=np.bool_)
    is_header[layout.matching(_HEADER, np.flatnonzero(has_brace), _LONGEST_HEADER)] = True
    is_header[layout.matching(_PLAIN_HEADER, np.flatnonzero(is_plain), _LONGEST_HEADER)] = True
    continues = _CONTINUES[layout.first]
    # A few lines are tried faster than the text is searched.
    if np.count_nonzero(may_require) <= _FEW_LINES or "require(" in layout.text:
        may_import |= may_require
    imports = layout.matching(_IMPORT, np.flatnonzero(may_import & ~quoted), _LONGEST_HEADER)
    scope, parent = _scopes(layout, is_header, continues)
    _claim_leads(scope, np.flatnonzero(is_header), layout, is_comment)
    return Structure(
        is_header=is_header,
        is_import=_imports(layout, imports, continues),
        is_comment=is_comment,
        scope=scope,
        parent=parent,
    )


def flat(total_lines: int) -> Structure:
    """The structure of a text that has none."""
    none = np.zeros(total_lines, dtype=np.bool_)
    outside = np.full(total_lines, -1, dtype=np.int64)
    return Structure(is_header=none, is_import=none, is_comment=none, scope=outside, parent=outside)


def _scopes(layout: Layout, is_header: Bools, continues: Bools) -> tuple[Ints, Ints]:
    """Walk the lines at which a scope can open or close; between them nothing changes.

    A line that is indented more than the last header above it closes nothing.
    """
    total = len(layout)
    parent = np.full(total, -1, dtype=np.int64)
    headers = np.flatnonzero(is_header)
    until = np.append(headers, total)
    last_indent = np.repeat(np.append(-1, layout.indent[headers]), until - np.append(0, headers))
    at = np.flatnonzero((layout.indent <= last_indent) & ~layout.is_blank)
    scopes, parents = [-1], list[int]()
    open_headers, open_indents = [-1], [-1]
    for i, column, is_open, is_closer in zip(
        at.tolist(), layout.indent[at].tolist(), is_header[at].tolist(), continues[at].tolist(), strict=True
    ):
        while column < open_indents[-1] or (column == open_indents[-1] and not is_closer):
            open_headers.pop()
            open_indents.pop()
        if is_open:
            parents.append(open_headers[-1])
            open_headers.append(i)
            open_indents.append(column)
        scopes.append(open_headers[-1])
    parent[headers] = parents
    return np.repeat(np.array(scopes), np.append(at, total) - np.append(0, at)), parent


def _imports(layout: Layout, opening: list[int], continues: Bools) -> Bools:
    """Mark import statements to their end: the lines that are indented under them and the bracket that closes."""
    is_import = np.zeros(len(layout), dtype=np.bool_)
    for first in opening:
        indent = layout.indent[first]
        last = first
        while (
            last + 1 < len(layout)
            and not layout.is_blank[last + 1]
            and (layout.indent[last + 1] > indent or (continues[last + 1] and layout.indent[last + 1] == indent))
        ):
            last += 1
        is_import[first : last + 1] = True
    return is_import


def _claim_leads(scope: Ints, headers: Ints, layout: Layout, is_comment: Bools) -> None:
    may_lead = is_comment & ~layout.is_blank
    for header in headers[may_lead[headers - 1] & (headers > 0)].tolist():
        above = header - 1
        indent = layout.indent[header]
        while above >= 0 and may_lead[above] and abs(layout.indent[above] - indent) <= 1:
            scope[above] = header
            above -= 1


def in_triple_quotes(layout: Layout) -> Bools:
    """Mark the lines of triple-quoted strings, with the lines on which one opens or closes."""
    marks = np.concatenate([layout.tripled(quote) for quote in "\"'"])
    toggles = np.bincount(layout.line_of(marks), minlength=len(layout))
    is_open: Bools = np.cumsum(toggles) % 2 == 1
    return is_open | (toggles > 0)
