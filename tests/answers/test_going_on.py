"""Whatever was cut last decides what a result says about going on: a reader who follows it gets the whole."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mcp_agent.answers.budget import MOST_MESSAGE_BYTES
from mcp_agent.answers.reply import Compact
from mcp_agent.app import compose_daemon
from mcp_agent.calls.call import Call, Caller, Page, Success
from mcp_agent.config import load
from mcp_agent.daemon import Daemon
from mcp_agent.protocol.methods import tool_result
from registry.gate import Access
from registry.profiles import Form
from tests.support.daemon import Daemon as RunningDaemon
from tests.support.peers import Connect

_SHORT_BYTES = 8_000
_FROM_LINE = re.compile(r"go on with fs_read_range from line (\d+)")
_FROM_PLACE = re.compile(r"go on with start_line=(\d+)(?: start_byte=(\d+))?")
_CURSOR = re.compile(r"go on with cursor=(\d+)")
_AFTER = re.compile(r"call again with after='(.*)'")
_SINCE = re.compile(r"go on with since=(\d+)")
_GAP = re.compile(
    r"^\[… ([\d,]+) bytes left out; go on with fs_read_range path=(\S+) start_line=(\d+)(?: start_byte=(\d+))? "
    r"end_line=(-?\d+); search it: fs_grep base=\2\]\n",
    re.MULTILINE,
)
_MARKER = re.compile(r"^⟦PRUNED: lines (\d+)-(\d+)(?: · .*)?⟧$", re.MULTILINE)


class Wire(NamedTuple):
    """How a client is connected, and with that its budget: what it calls itself, its profile, and what it asks."""

    transport: str
    client: str = ""
    profile: str | None = None
    question: str | None = None

    @property
    def is_text(self) -> bool:
        return self.client != ""


WIRES = (
    Wire("openapi"),
    Wire("rpc"),
    Wire("http"),
    Wire("http", "claude-code"),
    Wire("sse", "codex-mcp-client"),
    Wire("stdio", "@cline/core"),
    Wire("http", "qwen-cli-mcp-client-1"),
)
BUDGETS = (*WIRES, Wire("http", profile="compact"), Wire("http", question="where is abc?"))


class Reader:
    """Reads through a composed daemon as a client of one wire would, and follows what results say."""

    def __init__(self, daemon: Daemon, wire: Wire) -> None:
        self.daemon = daemon
        self.wire = wire

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The object, or the text in text form. Every message is checked for its size."""
        form: Form = "json" if self.wire.transport in ("openapi", "rpc") else "auto"
        access = Access(self.wire.profile)
        caller = Caller("owner", access, self.wire.transport, self.wire.client, form, connection="one")
        outcome = await self.daemon.dispatcher.call(Call("test", caller, tool, arguments))
        assert isinstance(outcome, Success | Page), outcome
        written = outcome.written
        if isinstance(written, Compact):
            assert len(written.encoded) < _SHORT_BYTES
            return orjson.loads(written.encoded)
        if self.wire.transport == "openapi":
            assert isinstance(written, bytes)
            assert len(written) < MOST_MESSAGE_BYTES
        else:
            assert len(orjson.dumps(tool_result(outcome))) < MOST_MESSAGE_BYTES
        return orjson.loads(written) if isinstance(written, bytes) else written

    async def file(self, path: str, **size: int) -> str:
        """A whole file: fs_read, and fs_read_range as often as it takes. What a question left out is brought back."""
        if self.wire.profile is not None:
            return await self.range(path, 1)
        asked = {} if self.wire.question is None else {"context_focus_question": self.wire.question}
        answer = await self.call("fs_read", path=path, **size, **asked)
        content: str
        if self.wire.is_text:
            header, _, content = answer.partition("\n")
            found = _FROM_LINE.search(header)
            following = int(found[1]) if found else None
        else:
            content, following = await self._unpruned(answer), answer.get("next_line")
        if following is None:
            return content
        # The line to go on from is the first that is not all there.
        whole = content[: content.rfind("\n") + 1]
        assert following == whole.count("\n") + 1
        return whole + await self.range(path, following)

    async def range(self, path: str, line: int, byte: int | None = None, end: int = -1) -> str:
        """Lines of a file. Between two parts is a line end, unless the cut was inside a line."""
        read = ""
        while True:
            answer = await self.call("fs_read_range", path=path, start_line=line, end_line=end, start_byte=byte)
            content: str = answer.partition("\n")[2] if self.wire.is_text else answer["content"]
            while not self.wire.is_text and "nextCursor" in answer:
                del answer["hint"]
                answer |= await self.call("fs_read_range", cursor=answer.pop("nextCursor"))
                content += answer["content"]
            following = self._next_place(answer)
            if following is None:
                return read + content
            assert following > (line, byte or 0), "it goes on where it was"
            line, byte = following
            read += content if byte else f"{content}\n"

    async def _unpruned(self, answer: Any) -> str:
        """The content of an answer with the lines that its markers stand for."""
        text: str = answer["content"]
        read, end = "", 0
        for marker in _MARKER.finditer(text):
            ranges = [{"start_line": int(marker[1]), "end_line": int(marker[2])}]
            prune_id = answer["pruning"]["prune_id"]
            back = await self.call("recover_text", prune_id=prune_id, ranges=ranges, include_line_numbers=False)
            read += text[end : marker.start()] + back["raw_text"]
            end = marker.end()
        return read + text[end:]

    def _next_place(self, answer: Any) -> tuple[int, int] | None:
        if self.wire.is_text:
            found = _FROM_PLACE.search(answer.partition("\n")[0])
            return (int(found[1]), int(found[2] or 0)) if found else None
        if not answer.get("truncated"):
            return None
        place = (answer["next_line"], answer.get("next_byte", 0))
        if "hint" in answer:
            found = re.search(r"^Go on with fs_read_range start_line=(\d+)(?: start_byte=(\d+))?\.", answer["hint"])
            assert found is not None
            assert (int(found[1]), int(found[2] or 0)) == place
        return place

    async def artifact(self, reference: str, **size: int) -> str:
        read, cursor = "", None
        while True:
            answer = await self.call("artifact_read", ref=reference, cursor=cursor, **size)
            content: str
            if self.wire.is_text:
                header, _, content = answer.partition("\n")
                found = _CURSOR.search(header)
                cursor = found[1] if found else None
            else:
                content, cursor = answer["content"], answer.get("nextCursor")
            read += content
            if cursor is None:
                return read

    async def names(self, path: str, **size: int) -> list[str]:
        found: list[str] = []
        after = None
        while True:
            answer = await self.call("fs_list", path=path, after=after, **size)
            if self.wire.is_text:
                header, *lines = answer.split("\n")
                found += [line.split("\t")[0] for line in lines]
                place = _AFTER.search(header)
                after = place[1] if place else None
            else:
                found += [entry["path"].rpartition("/")[2] for entry in answer["entries"]]
                after = answer.get("next")
            if after is None:
                return found
            assert after.endswith("/" + found[-1])


@contextlib.asynccontextmanager
async def composed(folder: Path) -> AsyncIterator[Daemon]:
    folder.mkdir(exist_ok=True)
    flags = {"state_dir": str(folder / "state"), "tools_file": str(folder / "tools.json")}
    daemon = compose_daemon(load({"command_undo": False, **flags}, {}), working_directory=folder)
    try:
        yield daemon
    finally:
        await daemon.stop(0.5)
        daemon.close()


def _text(seed: int, lines: int, width: int, giant: int, alphabet: str, ending: str) -> str:
    """Lines of different lengths, and one line of `giant` characters among them."""
    made = [alphabet[(seed + n) % len(alphabet)] * ((seed * 7 + n * 13) % width) + str(n) for n in range(lines)]
    if giant:
        made.insert(seed % (len(made) + 1), (alphabet * (giant // len(alphabet) + 1))[:giant])
    return ending.join(made)


_ALPHABETS = ("abc ", '"\\', "\x1b\t", "äß", "☃😀a", "{}:")


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    wire=st.sampled_from(BUDGETS),
    text=st.builds(
        _text,
        st.integers(0, 50),
        st.integers(1, 4_000),
        st.integers(1, 200),
        st.sampled_from([0, 0, 9_000, 90_000, 700_000]),
        st.sampled_from(_ALPHABETS),
        st.sampled_from(["\n", "\r\n"]),
    ),
    codec=st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16"]),
    size=st.sampled_from([None, None, 3, 20_000, 500_000, 5_000_000]),
)
@example(Wire("http"), _text(1, 40_000, 120, 0, "abc ", "\n"), "utf-8", 500_000)
@example(Wire("http", "claude-code"), _text(1, 40_000, 120, 0, '"\\', "\n"), "utf-8", 16_000_000)
@example(Wire("rpc"), "x" * 1_500_000, "utf-8", None)
@example(Wire("http"), "☃😀a" * 400_000, "utf-16", None)
@example(Wire("openapi"), _text(3, 9_000, 150, 0, "\x1b", "\r\n"), "utf-8", 5_000_000)
@example(Wire("http", profile="compact"), _text(5, 700, 150, 9_000, "☃😀a", "\r\n"), "utf-16", None)
@example(Wire("http", question="where is abc?"), _text(7, 4_000, 200, 0, "abc ", "\n"), "utf-8", 5_000_000)
async def test_going_on_from_every_next_cursor_and_marker_gives_the_file_byte_for_byte(
    tmp_path: Path, wire: Wire, text: str, codec: str, size: int | None
) -> None:
    async with composed(tmp_path / "host") as daemon:
        path = tmp_path / "file"
        path.write_bytes(text.encode(codec))
        read = await Reader(daemon, wire).file(str(path), **({} if size is None else {"max_bytes": size}))
    # A range of lines does not have the end of its last line.
    assert read.encode() in (text.encode(), text.removesuffix("\n").removesuffix("\r").encode())


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: f"{wire.transport} {wire.client}".strip())
async def test_one_enormous_line_is_read_to_its_end(tmp_path: Path, wire: Wire) -> None:
    line = "".join(f"{n:06}é" for n in range(60_000))
    (tmp_path / "line").write_text(f"one\n{line}\nthree")
    async with composed(tmp_path / "host") as daemon:
        assert await Reader(daemon, wire).range(str(tmp_path / "line"), 1) == f"one\n{line}\nthree"


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: f"{wire.transport} {wire.client}".strip())
async def test_going_on_from_every_next_lists_every_file_once(tmp_path: Path, wire: Wire) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    names = [f"{n:05} {'long name ' * 24}" for n in range(1_200)]
    for name in names:
        (folder / name).touch()
    async with composed(tmp_path / "host") as daemon:
        reader = Reader(daemon, wire)
        assert await reader.names(str(folder), max_entries=100_000) == names
        assert await reader.names(str(folder)) == names


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: f"{wire.transport} {wire.client}".strip())
async def test_an_artifact_is_read_to_its_last_byte(tmp_path: Path, wire: Wire) -> None:
    whole = "".join(f'{n} "é\x1b\\"\n' for n in range(60_000))
    async with composed(tmp_path / "host") as daemon:
        reference = daemon.artifacts.of("owner").keep("shell", [whole.encode()])
        reader = Reader(daemon, wire)
        assert await reader.artifact(reference) == whole
        assert await reader.artifact(reference, limit=400_000) == whole


@pytest.mark.parametrize(
    ("wire", "command"),
    [
        (Wire("http", "claude-code"), "seq 1 300000"),
        (Wire("sse", "codex-mcp-client"), "seq 1 20000"),
        (Wire("stdio", "@cline/core"), "head -c 60000 /dev/zero | tr '\\0' é"),
    ],
)
async def test_what_is_left_out_between_both_ends_is_read_as_the_gap_says(
    tmp_path: Path, wire: Wire, command: str
) -> None:
    async with composed(tmp_path / "host") as daemon:
        reader = Reader(daemon, wire)
        shown = await reader.call("shell_exec", command=command)
        whole = (await Reader(daemon, Wire("openapi")).call("shell_exec", command=command))["stdout"]
        gap = _GAP.search(shown)
        assert gap is not None, shown[:500] + shown[-500:]
        head, tail = shown[: gap.start()], shown[gap.end() :]
        byte = int(gap[4] or 0)
        middle = await reader.range(gap[2], int(gap[3]), byte, int(gap[5]))
        if byte:
            head = head.removesuffix("\n")
    if "300000" in command:
        # The tool has kept all that it did not give: the artifact is the output, without a header.
        whole = "".join(f"{n}\n" for n in range(1, 300_001))
        assert head.partition("\n")[2] + middle == whole.removesuffix("\n")
        assert whole.endswith(tail)
    else:
        assert (head + middle + ("\n" if tail else "") + tail).partition("\n")[2].rstrip("\n") == whole.rstrip("\n")
        assert int(gap[1].replace(",", "")) == len(middle.encode()) + (1 if tail else 0)


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: f"{wire.transport} {wire.client}".strip())
async def test_the_output_of_a_session_is_read_to_its_end_by_what_each_answer_says(tmp_path: Path, wire: Wire) -> None:
    whole = "".join(f'{n} \x1b"é\n' for n in range(20_000))
    (tmp_path / "out").write_text(whole)
    async with composed(tmp_path / "host") as daemon:
        reader = Reader(daemon, wire)
        started = await Reader(daemon, Wire("openapi")).call(
            "shell_start_session", command=f"cat {tmp_path / 'out'}; echo; echo over"
        )
        about = {"session_id": started["session_id"], "input": ""}
        await reader.call("shell_send_input", **about, until="over", wait_ms=10_000, since=-4)
        for says_since in (True, False):
            read, since = "", 0 if says_since else None
            if not says_since:
                first = await reader.call("shell_send_input", **about, wait_ms=0, since=0)
                read = first.partition("\n")[2] if wire.is_text else first["output"]
            while True:
                answer = await reader.call("shell_send_input", **about, wait_ms=0, since=since)
                if wire.is_text:
                    header, _, output = answer.partition("\n")
                    found = _SINCE.search(header)
                    following = int(found[1]) if found else None
                else:
                    output, following = answer["output"], answer["next_offset"] if answer.get("more") else None
                read += output
                since = following if says_since else None
                if following is None:
                    break
            assert read == whole + "\nover\n"


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("fs_read", lambda folder: {"path": str(folder / "lines"), "max_bytes": 16_000_000}, "content"),
        ("fs_list", lambda folder: {"path": str(folder / "many"), "max_entries": 100_000}, "entries"),
        ("fs_search", lambda folder: {"base": str(folder / "many"), "max_results": 100_000}, "matches"),
        (
            "fs_grep",
            lambda folder: {"base": str(folder / "lines"), "pattern": "line", "max_matches": 100_000},
            "matches",
        ),
        ("shell_exec", lambda folder: {"command": f"cat {folder / 'lines'}"}, "stdout"),
        ("grep", lambda folder: {"path": str(folder / "lines"), "pattern": "line", "max_matches": 5_000}, "matches"),
        ("read", lambda folder: {"file_path": str(folder / "lines")}, "content"),
    ],
)
async def test_what_is_too_large_fills_the_message(
    tmp_path: Path, tool: str, arguments: Callable[[Path], dict[str, Any]], field: str
) -> None:
    """No cliff: half a percent more than fits is half a percent less than all of it."""
    many = tmp_path / "many"
    many.mkdir()
    (tmp_path / "lines").write_text(
        "".join(f"line {n} {'x' * (180 if tool == 'grep' else 40)}\n" for n in range(24_000))
    )
    for n in range(4_000 if tool in ("fs_list", "fs_search") else 0):
        (many / f"{n:05} {'long name ' * 24}").touch()
    async with composed(tmp_path) as daemon:
        for transport in ("http", "rpc", "openapi"):
            caller = Caller("owner", Access(), transport, form="json")
            outcome = await daemon.dispatcher.call(Call("test", caller, tool, arguments(tmp_path)))
            assert isinstance(outcome, Success), outcome
            assert isinstance(outcome.written, bytes)
            sent = outcome.written if transport == "openapi" else orjson.dumps(tool_result(outcome))
            assert 970_000 < len(sent) < MOST_MESSAGE_BYTES, (transport, len(sent))
            shown = orjson.loads(outcome.written)
            assert shown["truncated"] is True
            assert shown["artifactRef"] in shown["hint"]
            assert shown.get("match_count", len(shown[field])) == len(shown[field])


async def test_a_large_file_is_read_on_over_every_real_wire(
    shared_daemon: RunningDaemon, connect: Connect, tmp_path: Path
) -> None:
    text = "".join(f'{n} "quoted" \\ and é\n' for n in range(60_000))
    (tmp_path / "file").write_text(text)
    async with connect(shared_daemon) as peer:
        answer = (await peer.call("fs_read", path=str(tmp_path / "file"), max_bytes=2_000_000)).object
        read = answer["content"]
        line = answer["next_line"]
        assert read.count("\n") + 1 == line
        while line is not None:
            answer = (
                await peer.call("fs_read_range", path=str(tmp_path / "file"), start_line=line, end_line=-1)
            ).object
            read += answer["content"] + "\n"
            line = answer.get("next_line")
    assert read == text


@pytest.mark.parametrize("client", ["codex-mcp-client", "copilot-cli", "claude-code"])
@pytest.mark.parametrize("functions", [200, 600, 3_000])
async def test_what_does_not_fit_is_left_out_by_the_question_and_no_line_is_altered(
    tmp_path: Path, client: str, functions: int
) -> None:
    """Of each line it is known where it stood: every one is a line of the file or a marker."""
    source = "".join(
        f"def step_{n}(pool):\n    value = pool.take({n})\n    wait(value, {n})\n    return value + {n}\n\n\n"
        for n in range(functions)
    )
    path = tmp_path / "steps.py"
    path.write_text(source)
    lines = source.removesuffix("\n").split("\n")
    async with composed(tmp_path / "host") as daemon:
        reader = Reader(daemon, Wire("http", client))
        for tool, named in (("read", {"file_path": str(path)}), ("bash", {"command": f"cat {path}"})):
            question = f"what do the pools of step_{functions // 2} return?"
            answer = await reader.call(tool, **named, context_focus_question=question)
            note, header, *shown = answer.removesuffix("\n").split("\n")
            assert "lines left out; recover_text prune_id=" in note
            assert str(path) in header or "exit 0" in header
            place = 0
            for line in shown:
                marker = _MARKER.match(line)
                assert marker is not None or line == lines[place], line
                assert marker is None or int(marker[1]) == place + 1
                place = int(marker[2]) if marker else place + 1
            assert place == len(lines)
            assert f"def step_{functions // 2}(pool):" in shown
