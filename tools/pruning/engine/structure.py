"""How the lines of a text belong together: definitions in code, sections and code blocks in documents.

Definitions are recognised by the pattern of their first line and bounded by indentation, in any language that indents
its blocks. There is no parser: a file with a syntax error is read like any other. Also here: which lines the author
has protected from pruning, and whether a text is code, a log or a document.
"""

import re

import numpy as np
from msgspec import Struct

from tools.pruning.engine.log_lines import is_log
from tools.pruning.engine.render import SourceType
from tools.pruning.engine.text_arrays import Bools, Ints, LineArray, mark, mark_codes, mark_openings

_MODIFIERS = (
    r"(?:(?:pub(?:\([^)]*\))?|export|default|public|private|protected|internal|static|final|abstract|async|unsafe"
    r"|extern(?:\s+\"C\")?|const|override|virtual|inline|sealed|synchronized|open|suspend|data|partial|declare)\s+)"
)
_KEYWORDS = (
    r"(?:(?:def|class|func|fn|fun|function|impl|struct|enum|trait|interface|type|object|record)\b[\s<*(]+[\w<$(']"
    r"|(?:mod|module|namespace|protocol|extension|sub|proc|union|macro_rules!|local\s+function|case\s+class)\s+[\w:$]"
    r"|typedef\s+(?:struct|enum|union)\b)"
)
_NAMED = rf"{_KEYWORDS}|{_MODIFIERS}+(?:{_KEYWORDS}|[\w<>\[\],.?&@ ]+\()"
_NO_CONTROL_WORD = (
    r"(?!(?:if|for|foreach|while|switch|catch|return|else|elseif|do|with|match|elif|using|lock|loop|go|defer|select|await"
    r"|yield|new|synchronized|unless|until)\b)"
)
_BRACED = (
    rf"{_NO_CONTROL_WORD}(?:[\w<>\[\],.?&:*]+\s+)*[\w:~*&\]]+\s*\([^;]*\)[^;=]*\{{\s*$"
    r"|[^=;/*#]*(?:=|\(|:|,)\s*(?:async\s+)?(?:function\b[^;]*|(?:\([^()]*\)(?:: ?[\w<>\[\]|., ]+)?|\w+)\s*=>)\s*\{\s*$"
)
_ANNOTATIONS = r"(?:@\w+(?:\([^)]*\))?\s+)*+"
_HEADER = re.compile(rf"\s*+{_ANNOTATIONS}(?:{_NAMED}|{_BRACED})")
_PLAIN_HEADER = re.compile(rf"\s*+(?:{_NAMED})")
# The first line of a function whose opening brace is on a later line, as in C, C++ and C#.
_SIGNATURE = re.compile(rf"\s*+{_NO_CONTROL_WORD}[\w<>\[\],.?&*:~ \t]+\((?!.*[;{{])")
_IMPORT = re.compile(
    r"\s*+(?:import\b|from\s+\S+\s+import\b|(?:pub\s+)?use\s+\w|#include\b|package\s|extern\s+crate\b|require\b"
    r"|(?:const|let|var)\s.*=\s*require\()"
)
# The same for what is no program: a section of TOML, a block of Terraform, a statement of SQL, a stage of a Dockerfile,
# a key of YAML. They are looked for only where there is no definition.
_ENTRY = re.compile(
    r"\[{1,2}[\w.\"' :/-]+\]{1,2}\s*(?:#.*)?$|\s*+[\w.-]+(?: +\"[^\"]*\")* *\{\s*$"
    r"|(?i:create|alter|drop|insert|update|delete|select|with|begin|grant|comment)\s+\w"
    r"|(?:FROM|ARG|ENTRYPOINT|CMD|RUN|COPY) \S|\s*+(?:- +)?[\w./\"'-]+:\s*(?:#.*)?$"
)
_LONGEST_HEADER = 400
_LONGEST_STATEMENT = 10
# What a definition of Java or Rust begins with, and how many of a program do.
_MEMBER = re.compile(r"\s*+(?:pub\b|fn |impl\b|public |private |protected )")
_MEMBER_SHARE = 0.3
# What a character adds to the number of open brackets.
_BRACKETS = mark_codes("([").astype(np.int8) - mark_codes(")]").astype(np.int8)
_MOST_SIGNATURE_LINES = 12
_FEW_LINES = 100
# The column of what is around all definitions: left of every other.
_OUTSIDE = -2
# What a line begins with that opens a definition, unless it ends in a brace. Only the first three letters are compared,
# to spare most lines the regular expression.
_HEADER_OPENINGS = mark_openings(
    (
        "def class func fn fun function impl struct enum trait interface mod module namespace type macro_rules object"
        " protocol extension pub export default public private protected internal static final abstract async unsafe"
        " extern override virtual inline sealed synchronized open suspend data partial declare local case typedef sub"
        " proc union"
    ).split()
)
_IMPORT_OPENINGS = mark_openings("import from use pub #include package extern require".split())
_STAGE_OPENINGS = mark_openings(["FROM"])
_REQUIRE_OPENINGS = mark_openings("const let var".split())
_CONTINUES_BLOCK = mark_codes("})]{")
_CONTROL_OPENINGS = mark_openings("if for while switch".split())
_CONTINUES_SIGNATURE = mark_codes(":,)&|")
_OPENS_COMMENT = mark_codes("#@/*")
_DIRECTIVE_OPENINGS = mark_openings("#if #else #endif #define #undef #pragma #error #warning".split())
# A line that begins with one star is a comment only if white space, a slash or another star follows.
_STAR_OPENINGS = mark_openings(f"*{second}{third}" for second in " /*" for third in map(chr, range(32, 127)))

_ATX_HEADING = re.compile(r" {0,3}(#{1,6})\s+\S")
_UNDERLINE = re.compile(r"([=\-~^\"'*+#`:.])\1{2,}\s*$")
_FENCE = re.compile(r"\s{0,12}(?:[-*+]\s+|\d+[.)]\s+)?(`{3,}|~{3,})(.*)$")
_MAY_FENCE = mark_codes("`~-*+0123456789")

_PROTECT_BEGIN = "⟦NO_PRUNE_BEGIN⟧"
_PROTECT_END = "⟦NO_PRUNE_END⟧"

_SAMPLE_LINES = 150
_SAMPLE_CHARS = 400
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


class Structure(Struct, frozen=True):
    """`scope[i]` is the line of the innermost header around line i (the line itself for a header), or -1.

    A header opens a definition or a section. Comments and decorators directly above a header have the scope of the
    header. `parent` gives every header line the header around it, or -1; it is undefined for other lines.
    """

    is_header: Bools
    is_import: Bools
    is_comment: Bools
    scope: Ints
    parent: Ints


def code_structure(lines: LineArray, is_quoted: Bools) -> Structure:
    """Find the definitions and imports of a program; `is_quoted` marks the lines of triple-quoted strings."""
    total = len(lines)
    is_directive = (lines.first == ord("#")) & _DIRECTIVE_OPENINGS[lines.opening]
    is_starred_code = (lines.first == ord("*")) & ~_STAR_OPENINGS[lines.opening]
    is_annotated = (lines.first == ord("@")) & (lines.last == ord("{"))
    is_comment = (_OPENS_COMMENT[lines.first] & ~is_directive & ~is_starred_code & ~is_annotated) | is_quoted
    is_comment |= _block_comments(lines)
    has_brace = (lines.last == ord("{")) & ~is_comment
    is_candidate = _HEADER_OPENINGS[lines.opening] & ~is_comment & ~has_brace
    headers = lines.matching(_HEADER, np.flatnonzero(has_brace), _LONGEST_HEADER)
    headers += lines.matching(_PLAIN_HEADER, np.flatnonzero(is_candidate), _LONGEST_HEADER)
    headers += lines.matching(_SIGNATURE, _signatures(lines, has_brace & ~mark(headers, total)), _LONGEST_HEADER)
    column = lines.indent
    if not headers:
        headers = lines.matching(_ENTRY, np.flatnonzero(~is_comment & ~lines.is_blank), _LONGEST_HEADER)
        # What follows a section of TOML or a stage of a Dockerfile is not indented, and belongs to it.
        has_flat_body = (lines.first == ord("[")) | _STAGE_OPENINGS[lines.opening]
        column = column - (has_flat_body & mark(headers, total))
    is_header = mark(headers, total)
    may_import, may_require = _IMPORT_OPENINGS[lines.opening], _REQUIRE_OPENINGS[lines.opening]
    # Matching a few lines is faster than searching the text.
    if np.count_nonzero(may_require) <= _FEW_LINES or "require(" in lines.text:
        may_import |= may_require
    imports = lines.matching(_IMPORT, np.flatnonzero(may_import & ~is_quoted), _LONGEST_HEADER)
    continues = _CONTINUES_BLOCK[lines.first]
    scope, parent = _scopes(lines, column, is_header, continues, is_directive)
    _claim_leading_comments(scope, np.flatnonzero(is_header), lines, is_comment)
    return Structure(
        is_header=is_header,
        is_import=_whole_imports(lines, imports, continues),
        is_comment=is_comment,
        scope=scope,
        parent=parent,
    )


def has_small_members(lines: LineArray, structure: Structure) -> bool:
    """Whether a program looks like Java or Rust, whose types are made of many short functions."""
    headers = np.flatnonzero(structure.is_header)
    return len(lines.matching(_MEMBER, headers, _LONGEST_HEADER)) > _MEMBER_SHARE * headers.size


def ends_of_statements(kept: Bools, lines: LineArray) -> Bools:
    """Mark the lines behind each kept run that its last statement still needs: to its closing bracket."""
    added = np.zeros_like(kept)
    depth = np.add.reduceat(_BRACKETS[lines.codes], lines.start, dtype=np.int32)
    for last in np.flatnonzero(kept[:-1] & ~kept[1:]).tolist():
        open_brackets, line = 0, last
        while line > last - _LONGEST_STATEMENT and line >= 0 and kept[line] and open_brackets <= 0:
            open_brackets += int(depth[line])
            line -= 1
        after = last
        while open_brackets > 0 and after + 1 < len(lines) and after < last + _LONGEST_STATEMENT:
            after += 1
            open_brackets += int(depth[after])
        if open_brackets <= 0:
            added[last + 1 : after + 1] = True
    return added


def document_structure(lines: LineArray, blocks: list[tuple[int, int]]) -> Structure:
    """Find the sections of a document: headings are headers, and a deeper section has the outer one as its parent."""
    total = len(lines)
    parent = np.full(total, -1, dtype=np.int64)
    headings = _headings(lines, _in_blocks(blocks, total))
    open_headings: list[tuple[int, int]] = []
    for line, level in headings:
        while open_headings and open_headings[-1][1] >= level:
            open_headings.pop()
        parent[line] = open_headings[-1][0] if open_headings else -1
        open_headings.append((line, level))
    nothing = np.zeros(total, dtype=np.bool_)
    is_header = mark([line for line, _ in headings], total)
    scope: Ints = np.maximum.accumulate(np.where(is_header, np.arange(total), -1))
    return Structure(is_header=is_header, is_import=nothing, is_comment=nothing, scope=scope, parent=parent)


def no_structure(total_lines: int) -> Structure:
    nothing = np.zeros(total_lines, dtype=np.bool_)
    outside = np.full(total_lines, -1, dtype=np.int64)
    return Structure(is_header=nothing, is_import=nothing, is_comment=nothing, scope=outside, parent=outside)


def quoted_lines(lines: LineArray) -> Bools:
    """Mark the lines of triple-quoted strings, with the lines on which one opens or closes."""
    quotes = np.concatenate([lines.triples(quote) for quote in "\"'"])
    toggles = np.bincount(lines.line_of(quotes), minlength=len(lines))
    is_open: Bools = np.cumsum(toggles) % 2 == 1
    return is_open | (toggles > 0)


def code_blocks(lines: LineArray) -> list[tuple[int, int]]:
    """The first and last line of every fenced block, from 0. A fence that is not closed runs to the end."""
    blocks: list[tuple[int, int]] = []
    if lines.triples("`").size == 0 and lines.triples("~").size == 0:
        return blocks
    opened = -1
    fence = ""
    for i in np.flatnonzero(_MAY_FENCE[lines.first]).tolist():
        match = _FENCE.match(lines.line(i))
        if match is None:
            continue
        marks, rest = match[1], match[2].strip()
        if opened < 0:
            is_underline = marks[0] == "~" and i > 0 and not lines.is_blank[i - 1]
            if "`" not in rest and not is_underline:
                opened, fence = i, marks
        elif marks[0] == fence[0] and len(marks) >= len(fence) and not rest:
            blocks.append((opened, i))
            opened = -1
    if opened >= 0:
        blocks.append((opened, len(lines) - (2 if lines.ends_in_newline else 1)))
    return blocks


def units_of(total: int, blocks: list[tuple[int, int]]) -> Ints:
    """Give every line the first line of its unit: a code block is one unit, any other line is its own."""
    unit = np.arange(total)
    for first, last in blocks:
        unit[first : last + 1] = first
    return unit


def protected_lines(lines: LineArray) -> Bools:
    """Mark the lines from each begin directive to its end directive, both included.

    A block that is not closed is protected to the end of the text, and an end without a beginning protects its own
    line: when in doubt, lines stay.
    """
    is_protected = np.zeros(len(lines), dtype=np.bool_)
    if _PROTECT_BEGIN not in lines.text and _PROTECT_END not in lines.text:
        return is_protected
    opened = -1
    for i, line in enumerate(lines.text.split("\n")):
        if _PROTECT_BEGIN in line and opened < 0:
            opened = i
        if _PROTECT_END in line:
            is_protected[opened if opened >= 0 else i : i + 1] = True
            opened = -1
    if opened >= 0:
        is_protected[opened:] = True
    return is_protected


def detect_source_type(lines: LineArray, is_quoted: Bools, *, is_output: bool) -> SourceType:
    """Tell what a text looks like; `is_quoted` marks the lines of triple-quoted strings.

    Between code and documents only lines without indentation count: a manual with examples is still a manual, and a
    program with long comments is still a program.
    """
    embedded = _mark_embedded(lines, is_quoted)
    if is_log(lines, embedded, _sample(lines, ~lines.is_blank), is_output=is_output):
        return "logs"
    code = document = 0
    for line in _sample(lines, ~lines.is_blank & (lines.indent == 0) & ~embedded):
        if _DOCUMENT_MARK.match(line):
            document += 2
        elif line.rstrip().endswith(_CODE_ENDS) or _CODE.match(line):
            code += 1
        elif _ITEM.match(line) or _PROSE.match(line):
            document += 1
    return "code" if code >= document and code > 0 else "docs"


def _signatures(lines: LineArray, has_brace: Bools) -> Ints:
    """The lines on which a function may begin whose brace opens on one of these lines, which begin none themselves.

    The brace is alone in the column of the function, or it follows the last parameter.
    """
    found: set[int] = set()
    may_end = has_brace & (lines.first != ord("}")) & ~_CONTROL_OPENINGS[lines.opening]
    for brace in np.flatnonzero(may_end).tolist():
        line = lines.line(brace)
        is_alone = line.strip() == "{"
        if not is_alone and line.count(")") <= line.count("("):
            continue
        column = lines.indent[brace]
        for above in range(brace - 1, max(brace - _MOST_SIGNATURE_LINES, 0) - 1, -1):
            if lines.is_blank[above]:
                break
            if _CONTINUES_SIGNATURE[lines.first[above]]:
                continue
            is_left = lines.indent[above] < column
            is_first = lines.indent[above] == column if is_alone else is_left or lines.last[above] == ord("(")
            if is_first:
                found.add(above)
            if is_first or is_left:
                break
    return np.array(sorted(found), dtype=np.int64)


def _scopes(
    lines: LineArray, column: Ints, is_header: Bools, continues: Bools, is_directive: Bools
) -> tuple[Ints, Ints]:
    """Keep a stack of open headers over the lines at which one can open or close; between them nothing changes.

    A line that is indented more than the last header above it closes nothing. A header with a brace is closed by the
    closing brace or the next header, and not by a label or a preprocessor directive at its column.
    """
    total = len(lines)
    parent = np.full(total, -1, dtype=np.int64)
    headers = np.flatnonzero(is_header)
    until = np.append(headers, total)
    last_indent = np.repeat(np.append(_OUTSIDE, column[headers]), until - np.append(0, headers))
    at = np.flatnonzero((column <= last_indent) & ~lines.is_blank)
    scopes, parents = [-1], list[int]()
    open_headers, open_columns, awaits_brace = [-1], [_OUTSIDE], [False]
    first, last = lines.first[at], lines.last[at]
    for i, at_column, is_open, is_closer, is_skipped, opens, closes in zip(
        at.tolist(),
        column[at].tolist(),
        is_header[at].tolist(),
        continues[at].tolist(),
        is_directive[at].tolist(),
        (last == ord("{")).tolist(),
        (first == ord("}")).tolist(),
        strict=True,
    ):
        while (at_column < open_columns[-1] and not (is_skipped and awaits_brace[-1])) or (
            at_column == open_columns[-1] and not is_closer and (is_open or not awaits_brace[-1])
        ):
            open_headers.pop()
            open_columns.pop()
            awaits_brace.pop()
        if is_open:
            parents.append(open_headers[-1])
            open_headers.append(i)
            open_columns.append(at_column)
            awaits_brace.append(opens)
        elif is_closer and at_column == open_columns[-1]:
            awaits_brace[-1] = opens or (awaits_brace[-1] and not closes)
        scopes.append(open_headers[-1])
    parent[headers] = parents
    return np.repeat(np.array(scopes), np.append(at, total) - np.append(0, at)), parent


def _whole_imports(lines: LineArray, first_lines: list[int], continues: Bools) -> Bools:
    """Mark import statements to their end: the lines indented under them and the closing bracket."""
    total = len(lines)
    is_import = mark(first_lines, total)
    # Most imports have one line, and looking at all of them at once is faster than one by one.
    firsts = np.array([line for line in first_lines if line + 1 < total], dtype=np.int64)
    for first in firsts[_belongs_to_import(lines, continues, firsts, firsts + 1)].tolist():
        last = first + 1
        while last + 1 < total and _belongs_to_import(lines, continues, first, last + 1):
            last += 1
        is_import[first : last + 1] = True
    return is_import


def _belongs_to_import(lines: LineArray, continues: Bools, first: Ints | int, line: Ints | int) -> Bools:
    """Whether a line belongs to the statement above it that begins on line `first`."""
    indent = lines.indent
    is_inside = (indent[line] > indent[first]) | (continues[line] & (indent[line] == indent[first]))
    belongs: Bools = is_inside & ~lines.is_blank[line]
    return belongs


def _claim_leading_comments(scope: Ints, headers: Ints, lines: LineArray, is_comment: Bools) -> None:
    may_lead = is_comment & ~lines.is_blank
    for header in headers[may_lead[headers - 1] & (headers > 0)].tolist():
        above = header - 1
        indent = lines.indent[header]
        while above >= 0 and may_lead[above] and abs(lines.indent[above] - indent) <= 1:
            scope[above] = header
            above -= 1


def _headings(lines: LineArray, in_block: Bools) -> list[tuple[int, int]]:
    """The line and level of every heading, in order. Underlined ones have levels in the order of their first use."""
    levels: dict[int, int] = {}
    for i in np.flatnonzero((lines.first == ord("#")) & ~in_block).tolist():
        if atx := _ATX_HEADING.match(lines.line(i)):
            levels[i] = len(atx[1])
    may_underline = (lines.first == lines.last) & ~lines.is_blank & ~in_block
    underline_levels: dict[str, int] = {}
    for i in np.flatnonzero(may_underline[1:] & ~lines.is_blank[:-1] & ~in_block[:-1]).tolist():
        # A line with both marks is one heading: as two, it would be its own parent.
        if i in levels:
            continue
        line, below = lines.line(i), lines.line(i + 1)
        underline = _UNDERLINE.match(below)
        title = line.strip()
        if underline and title and not _UNDERLINE.match(line) and len(below.strip()) >= min(len(title), 3):
            levels[i] = underline_levels.setdefault(underline[1], len(underline_levels) + 1)
    return sorted(levels.items())


def _in_blocks(blocks: list[tuple[int, int]], total: int) -> Bools:
    in_block = np.zeros(total, dtype=np.bool_)
    for first, last in blocks:
        in_block[first : last + 1] = True
    return in_block


def _sample(lines: LineArray, among: Bools) -> list[str]:
    numbers = np.flatnonzero(among)
    numbers = numbers[:: max(1, numbers.size // _SAMPLE_LINES)]
    starts = lines.start[numbers]
    ends = np.minimum(lines.end[numbers], starts + _SAMPLE_CHARS)
    return [lines.text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _mark_embedded(lines: LineArray, is_quoted: Bools) -> Bools:
    """Mark what stands in quotes, block comments and code blocks: it can look like anything."""
    embedded = is_quoted | _block_comments(lines)
    for first, last in code_blocks(lines):
        embedded[first + 1 : last + 1] = True
    return embedded


def _block_comments(lines: LineArray) -> Bools:
    """Mark the lines of comments that a line begins and that a later one may end, as in C."""
    is_comment = np.zeros(len(lines), dtype=np.bool_)
    if "*/" not in lines.text:
        return is_comment
    opens = set(lines.matching(_COMMENT_OPENS, np.flatnonzero(lines.first == ord("/"))))
    may_close = (lines.first == ord("/")) | (lines.first == ord("*")) | (lines.last == ord("/"))
    opened = -1
    for i in np.flatnonzero(may_close).tolist():
        if opened < 0 and i in opens:
            opened = i
        if opened >= 0 and "*/" in lines.line(i):
            is_comment[opened : i + 1] = True
            opened = -1
    return is_comment
