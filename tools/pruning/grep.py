"""grep: lines that match inside the root, all of them or those that a question needs."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import select
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypedDict

import orjson

from tools.files import utf8
from tools.filesystem.fs_grep import open_only
from tools.kit.context import ToolContext
from tools.kit.errors import Denied, Failed
from tools.kit.focus import FocusQuestion, PruningMetadata
from tools.kit.params import Field, Issue
from tools.kit.records import mutable, record
from tools.kit.results import Result
from tools.kit.spec import tool
from tools.kit.summaries import Item, matches_summary
from tools.pruning.bash import DEFAULT_TIMEOUT_MS, TimeoutMs
from tools.pruning.confined import ConfinedRoot
from tools.pruning.failing import check_path, failed, located, refuse
from tools.pruning.prune_text import pruner_of
from tools.pruning.read import MOST_OUTPUT_BYTES, OutputBytes

DEFAULT_MATCHES = 500
_READ_BYTES = 256 * 1024
_POLL_MS = 100
_MOST_LINE_BYTES = 16 * 1024 * 1024
_RENDERED = re.compile(r"(?P<path>.+?):(?P<line>\d+):(?:(?P<column>\d+):)?(?P<text>.*)", re.DOTALL)


class Match(TypedDict):
    path: str
    line: int
    column: int | None
    text: str


@record
class GrepMatches(Result):
    tool: str
    pattern: str
    paths: list[str]
    matches: list[Match]
    match_count: int
    truncated: bool
    duration_ms: int
    pruning: PruningMetadata

    def as_object(self) -> dict[str, Any]:
        return {**Result.as_object(self), "pruning": self.pruning.as_object()}

    def render(self) -> str:
        facts = [f"{self.match_count} match{'' if self.match_count == 1 else 'es'}"]
        if self.truncated:
            facts.append("there are more")
        if self.pruning.note:
            facts.append(self.pruning.note)
        return "\n".join([f"[{' · '.join(facts)}]", *map(rendered, self.matches)])

    def summary(self) -> str:
        return matches_summary(self.matches, is_cut=bool(self.truncated))

    @property
    def listed(self) -> str:
        return "matches"

    @classmethod
    def item(cls, entry: Match) -> Item:
        return Item(f"{entry['path']}:{entry['line']}", entry["text"].strip())


@tool("pruning", effect="read", title="Search with a question", deadline_s=600, json_rpc_errors=True)
async def grep(
    ctx: ToolContext,
    *,
    pattern: Annotated[str, Field(description="Regex.", min_length=1, max_length=10_000)],
    path: Annotated[
        str | None, Field(description="File or folder inside the root; default the folder cwd, or the root.")
    ] = None,
    paths: Annotated[
        list[str] | None, Field(description="Several of them, instead of path.", min_length=1, max_length=100)
    ] = None,
    cwd: Annotated[str | None, Field(description="Folder inside the root.")] = None,
    fixed_string: Annotated[bool, Field(description="The pattern is plain text.")] = False,
    case_sensitive: bool = True,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    max_matches: Annotated[int, Field(minimum=1, maximum=5_000)] = DEFAULT_MATCHES,
    max_output_bytes: OutputBytes = None,
    context_focus_question: FocusQuestion = None,
) -> GrepMatches:
    """Search for lines in files; with a question, only the matches that answer it."""
    began = time.perf_counter()
    root = ConfinedRoot(ctx.root)
    _check(root, pattern, path, paths, cwd)
    search = Search(
        ctx,
        root,
        pattern,
        fixed_string,
        case_sensitive,
        timeout_ms,
        max_matches,
        max_output_bytes or MOST_OUTPUT_BYTES,
        context_focus_question,
    )
    wanted = paths or [path if path is not None else cwd or "."]
    matches, is_cut = await asyncio.to_thread(search.found, wanted, cwd)
    lines = [rendered(match) for match in matches]
    by_line = dict(zip(lines, matches, strict=True))
    seen = await pruner_of(ctx).focus(
        "\n".join(lines),
        context_focus_question,
        tool="grep",
        call_id=ctx.call_id,
        owner=ctx.owner,
        markers=False,
        is_line=lambda line: line in by_line or _parsed(line) is not None,
    )
    shown = matches
    if seen.pruning.applied:
        shown = _left(seen.text, by_line) if seen.kept is None else [matches[index] for index in seen.kept]
    return GrepMatches(
        tool="grep",
        pattern=pattern,
        paths=wanted,
        matches=shown,
        match_count=len(shown),
        truncated=is_cut,
        duration_ms=round((time.perf_counter() - began) * 1000),
        pruning=seen.pruning,
    )


def rendered(match: Match) -> str:
    """One line: `path:line:column:text`, or without the column where there is none."""
    column = "" if match["column"] is None else f"{match['column']}:"
    return f"{match['path']}:{match['line']}:{column}{match['text']}".replace("\n", " ")


def _left(text: str, by_line: Mapping[str, Match]) -> list[Match]:
    """The matches in what a service left. What it changed in a line is taken as it is."""
    found = (by_line.get(line) or _parsed(line) for line in text.split("\n"))
    return [match for match in found if match is not None]


def _parsed(line: str) -> Match | None:
    found = _RENDERED.fullmatch(line)
    if found is None:
        return None
    column = None if found["column"] is None else int(found["column"])
    return Match(path=found["path"], line=int(found["line"]), column=column, text=found["text"])


def _check(root: ConfinedRoot, pattern: str, path: str | None, paths: list[str] | None, cwd: str | None) -> None:
    issues: list[Issue] = []
    if "\0" in pattern:
        issues.append(Issue("pattern", "custom", "pattern has a NUL character in it, which no line can have"))
    if path is not None and paths is not None:
        issues.append(Issue("", "custom", "path and paths exclude each other: pass one of them"))
    if path is not None:
        check_path(root, "path", path, issues)
    for index, each in enumerate(paths or ()):
        check_path(root, f"paths.{index}", each, issues)
    if cwd is not None:
        check_path(root, "cwd", cwd, issues)
    refuse(issues)


class _Enough(Exception):
    """As many matches or bytes as were asked for."""


@mutable
class Search:
    """One search, in one place after another, within one time limit."""

    ctx: ToolContext
    root: ConfinedRoot
    pattern: str
    is_fixed: bool
    is_case_sensitive: bool
    timeout_ms: int
    most_matches: int
    bytes_left: int
    question: str | None

    def found(self, paths: Sequence[str], cwd: str | None) -> tuple[list[Match], bool]:
        """The matches, and whether there are more. Raises Failed."""
        deadline = time.monotonic() + self.timeout_ms / 1000
        matches: list[Match] = []
        try:
            if cwd is not None:
                with located(self.root, cwd, self._invalid) as (_, status):
                    if not stat.S_ISDIR(status.st_mode):
                        raise self._invalid(f"{cwd} is a file, not a folder")
            for path in paths:
                with located(self.root, path, self._invalid) as (descriptor, status):
                    is_folder = stat.S_ISDIR(status.st_mode)
                    self._check_open(descriptor, path)
                    for match in self._searched(descriptor, is_folder, path, deadline):
                        self._take(match, matches)
        except _Enough:
            return matches, True
        return matches, False

    def _take(self, match: Match, matches: list[Match]) -> None:
        data = match["text"].encode("utf-8", "surrogatepass")
        if len(matches) == self.most_matches or self.bytes_left <= 0:
            raise _Enough
        if len(data) > self.bytes_left:
            kept = data[: utf8.boundary(data, self.bytes_left)].decode("utf-8", "replace")
            matches.append(Match(**{**match, "text": kept}))
            raise _Enough
        self.bytes_left -= len(data)
        matches.append(match)

    def _searched(self, descriptor: int, is_folder: bool, path: str, deadline: float) -> Iterator[Match]:
        """By descriptor, so that what was checked is what is searched: a folder is the program's own working
        directory, and a file is opened anew from the descriptor that the program inherits."""
        engine = self.ctx.engine
        shown = self.root.shown(path)
        admits = open_only(self.ctx, self.root.path.joinpath(*self.root.parts(path))) if is_folder else None
        arguments = self._rg(engine.program) if engine.kind == "rg" else self._grep(engine.program)
        target = "./" if is_folder else f"/proc/self/fd/{descriptor}"
        read = self._from_rg if engine.kind == "rg" else self._from_grep
        for line in self._lines([*arguments, "--", target], descriptor, is_folder, deadline):
            hit = read(line)
            if hit is None:
                continue
            name, match = hit
            below = name.removeprefix(b"./") if is_folder else b""
            if admits is not None and not admits(below):
                continue
            full = f"{shown.rstrip('/')}/{os.fsdecode(below)}" if is_folder else shown
            yield Match(**{**match, "path": full.encode("utf-8", "backslashreplace").decode()})

    def _rg(self, program: str) -> list[str]:
        # In one order, so that what is cut is cut at the same place every time.
        arguments = [program, "--no-config", "--json", "--sort", "path"]
        arguments += ["-F"] if self.is_fixed else []
        arguments += [] if self.is_case_sensitive else ["-i"]
        return [*arguments, "-e", self.pattern]

    def _grep(self, program: str) -> list[str]:
        # -r and not -R, which follows links out of the root; -Z ends a name with NUL, as a name may have a colon.
        arguments = [program, "-r", "-n", "-H", "-Z", "-I", "-D", "skip", "-F" if self.is_fixed else "-E"]
        arguments += [] if self.is_case_sensitive else ["-i"]
        return [*arguments, "-e", self.pattern]

    def _from_rg(self, line: bytes) -> tuple[bytes, Match] | None:
        if not line.startswith(b'{"type":"match"'):
            return None
        data = orjson.loads(line)["data"]
        raw = _bytes(data["lines"])
        column = None
        if data["submatches"]:
            column = len(raw[: data["submatches"][0]["start"]].decode("utf-8", "replace")) + 1
        text = raw.decode("utf-8", "replace").rstrip("\r\n")
        return _bytes(data["path"]), Match(path="", line=data["line_number"] or 1, column=column, text=text)

    def _from_grep(self, line: bytes) -> tuple[bytes, Match] | None:
        name, is_whole, rest = line.partition(b"\0")
        number, _, data = rest.partition(b":")
        if not is_whole or not number.isdigit():
            return None
        text = data.decode("utf-8", "replace").rstrip("\r")
        column = None
        if self.is_fixed:
            place = text.find(self.pattern) if self.is_case_sensitive else text.lower().find(self.pattern.lower())
            column = place + 1 if place >= 0 else None
        return name, Match(path="", line=int(number), column=column, text=text)

    def _lines(self, arguments: list[str], descriptor: int, is_folder: bool, deadline: float) -> Iterator[bytes]:
        try:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=f"/proc/self/fd/{descriptor}" if is_folder else self.root.path,
                pass_fds=() if is_folder else (descriptor,),
                env={name: value for name, value in os.environ.items() if name != "RIPGREP_CONFIG_PATH"},
            )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise self._failed("spawn_error", f"{arguments[0]} cannot be started: {reason}") from error
        try:
            yield from self._printed(process, deadline)
        finally:
            process.kill()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
            process.wait()

    def _printed(self, process: subprocess.Popen[bytes], deadline: float) -> Iterator[bytes]:
        assert process.stdout is not None, "it is a pipe"
        assert process.stderr is not None, "it is a pipe"
        poll = select.poll()
        pipes = {process.stdout.fileno(): "out", process.stderr.fileno(): "error"}
        for each in pipes:
            poll.register(each, select.POLLIN | select.POLLHUP)
        rest, complaint = b"", b""
        while pipes:
            if time.monotonic() > deadline:
                message = f"the search took longer than {self.timeout_ms} ms, and was ended"
                raise self._failed("timeout", message, timeout_ms=self.timeout_ms)
            self.ctx.check()
            for each, _ in poll.poll(_POLL_MS):
                data = os.read(each, _READ_BYTES)
                if not data:
                    poll.unregister(each)
                    del pipes[each]
                elif pipes[each] == "error":
                    complaint = (complaint + data)[:4_000]
                else:
                    *lines, rest = (rest + data).split(b"\n")
                    yield from lines
                    # A line of this length is no text that anybody asked for.
                    rest = b"" if len(rest) > _MOST_LINE_BYTES else rest
        if rest:
            yield rest
        exit_code = process.wait()
        if exit_code not in (0, 1):
            told = complaint.decode("utf-8", "replace").strip() or f"it ended with exit code {exit_code}"
            raise self._failed("rg_error", told, exit_code=exit_code)

    def _check_open(self, descriptor: int, path: str) -> None:
        try:
            self.ctx.paths.check(self.root.shown(path))
            self.ctx.paths.check_open(descriptor)
        except Denied as error:
            raise self._failed("invalid_path", f"{path}: {error.in_a_sentence}", rule=error.rule) from error

    def _invalid(self, message: str) -> Failed:
        return self._failed("invalid_path", message)

    def _failed(
        self,
        code: str,
        message: str,
        *,
        exit_code: int | None = None,
        timeout_ms: int | None = None,
        rule: str | None = None,
    ) -> Failed:
        return failed(
            self.ctx, "grep", code, message, self.question, exit_code=exit_code, timeout_ms=timeout_ms, rule=rule
        )


def _bytes(value: dict[str, str]) -> bytes:
    text = value.get("text")
    return text.encode() if text is not None else base64.b64decode(value["bytes"])
