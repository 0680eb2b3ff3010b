"""fs_grep: lines that match, in a file or in all files of a folder."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from tools.context import ToolContext
from tools.files.sources import Source, open_files_below, open_folder, open_source
from tools.filesystem.matches import FoundFiles, FoundLines, Wanted, find
from tools.kit.errors import InvalidPattern, IoError, Timeout, TooLarge, ToolError
from tools.kit.params import Field
from tools.kit.spec import tool
from tools.search.engine import MOST_MEMORY_MIB, TIME_LIMIT_S, EngineError, SearchQuery
from tools.search.globs import glob_below, glob_of_type, read_glob

ContextLines = Annotated[int | None, Field(minimum=0, maximum=1_000)]
_PLAIN = "to search for it as plain text, pass fixed: true"


@tool(
    "filesystem",
    effect="read",
    title="Search in files",
    focus="allowed",
    known_as=("grep_search", "search_file_content", "search_in_files", "ripgrep", "rg"),
)
def fs_grep(
    ctx: ToolContext,
    *,
    base: Annotated[str, Field.of_path("Folder, file, ax:// or undo:// reference.")],
    pattern: Annotated[str, Field(description="Regex.", min_length=1, aliases=("query", "regex"))],
    glob: Annotated[
        str | None,
        Field(
            description='Such as "*.py" or "src/**/*.{ts,tsx}".',
            audited=True,
            aliases=("include", "file_pattern", "glob_pattern"),
        ),
    ] = None,
    type_: Annotated[str | None, Field(description='Such as "py".', audited=True)] = None,
    max_matches: Annotated[int, Field(minimum=1, maximum=100_000, is_size=True, aliases=("max_results",))] = 200,
    context: Annotated[
        int, Field(description="Lines around each match.", minimum=0, maximum=1_000, aliases=("context_lines",))
    ] = 0,
    before: ContextLines = None,
    after: ContextLines = None,
    files_only: bool = False,
    count: Annotated[bool, Field(description="Only how many in each file.")] = False,
    multiline: bool = False,
    ignore_case: Annotated[bool, Field(aliases=("case_insensitive",))] = False,
    fixed: Annotated[
        bool, Field(description="The pattern is plain text.", aliases=("fixed_string", "fixed_strings", "literal"))
    ] = False,
    ignored: Annotated[bool, Field(description="Search what .gitignore leaves out, too.")] = False,
    skip: Annotated[int, Field(minimum=0, is_hidden=True)] = 0,
) -> FoundLines | FoundFiles:
    """Search for lines in files, sorted by path. Read around a match with fs_read_range."""
    for name, text in (("pattern", pattern), ("glob", glob or "")):
        if "\0" in text:
            raise InvalidPattern(f"{name} has a NUL character in it, which no line and no name can have")
    origin = ctx.source(base)
    shown, path = origin.shown, origin.path
    is_folder = os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises for a name that is too long
    is_exclusion = glob is not None and glob.startswith("!")
    named = None if glob is None else glob_below(glob.removeprefix("!"), shown) if is_folder else glob
    real = ctx.paths.real(path) if is_folder and not origin.is_kept else path
    # It is opened here, because its name may mean another by the time that the engine opens it.
    with contextlib.ExitStack() as opened:
        folder = opened.enter_context(open_folder(real, shown)) if is_folder else None
        file = None if is_folder else opened.enter_context(open_source(ctx.paths, origin)).descriptor
        query = SearchQuery(
            pattern=pattern,
            base=real,
            folder=folder,
            file=file,
            glob=read_glob(named) if named is not None and not is_exclusion else None,
            excluded=named if is_exclusion else None,
            ignore_case=ignore_case,
            is_fixed=fixed,
            kind=None if type_ is None else glob_of_type(type_),
            before=context if before is None else before,
            after=context if after is None else after,
            is_multiline=multiline,
            include_ignored=ignored,
            admits=_admits(ctx, origin, real),
        )
        try:
            return find(ctx, [(query, shown)], Wanted(max_matches, skip, files_only, count), TIME_LIMIT_S)
        except EngineError as error:
            raise search_error(error, limit_s=TIME_LIMIT_S, hint=None if fixed else _PLAIN) from error


def _admits(ctx: ToolContext, origin: Source, real: Path) -> Callable[[bytes], bool] | None:
    """Which files may be searched. For an old version of a folder, the rules are those of where it was."""
    if origin.place is None:
        return None
    return open_files_below(ctx.paths, origin.place, ctx.paths.real(origin.place) if origin.is_kept else real)


def search_error(error: EngineError, *, limit_s: float, hint: str | None) -> ToolError:
    """The error of a search that failed. `hint` is for a pattern that cannot be used."""
    if error.kind == "spawn":
        return IoError(f"the search engine cannot be started: {error.message}")
    if error.kind == "timeout":
        return Timeout(
            f"the search took longer than {limit_s:g} s",
            hint="search in a smaller folder, or narrow it with a glob",
        )
    if error.kind == "memory":
        return TooLarge(
            f"the search needs more than {MOST_MEMORY_MIB} MiB of memory",
            hint="an ignore file such as .gitignore may have costly lines: pass ignored: true, or search in one file",
        )
    # If ripgrep has tried both of its regex engines, the message of the first is about the usual syntax.
    _, *blocks = re.split(r"\n~{9,}\n", error.message)
    message = blocks[0] if blocks else error.message
    return InvalidPattern(
        message.removeprefix("rg: ").removeprefix("grep: "),
        hint=hint,
    )
