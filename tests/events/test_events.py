"""/events: every client hears every line, in order, once, and is told what it missed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.daemon import Daemon, running
from tests.support.event_stream import call, events, start, text
from tests.support.waiting import PATIENCE_S, eventually

IS_LONG = bool(os.environ.get("MCP_AGENT_TEST_LONG"))
_MIB = 1024 * 1024


async def test_output_and_exit_reach_every_client(shared_daemon: Daemon) -> None:
    async with events(shared_daemon) as first, events(shared_daemon) as second:
        session = await start(shared_daemon, "printf one; exec sleep 300")
        for client in (first, second):
            heard = await client.next("shell_session_output")
            assert heard.data == {
                "type": "shell_session_output",
                "session_id": session,
                "stream": "stdout",
                "chunk": "one",
                "offset": 0,
            }
        await call(shared_daemon, "shell_stop_session", session_id=session)
        for client in (first, second):
            heard = await client.next()
            assert heard.name == "shell_session_exit"
            assert heard.data == {
                "type": "shell_session_exit",
                "session_id": session,
                "exit_code": 143,
                "signal": "TERM",
            }


async def test_all_output_of_the_leader_comes_before_its_exit(shared_daemon: Daemon) -> None:
    async with events(shared_daemon) as client:
        await start(shared_daemon, "seq 1 20000; exit 5")
        heard = await client.rest()
    assert text(heard) == "".join(f"{number}\n" for number in range(1, 20_001))
    assert (heard[-1].name, heard[-1].data["exit_code"]) == ("shell_session_exit", 5)


async def test_what_a_grandchild_prints_later_is_spooled_and_not_sent(shared_daemon: Daemon, tmp_path: Path) -> None:
    command = f"(while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; echo late) & echo early"
    async with events(shared_daemon) as client:
        session = await start(shared_daemon, command)
        heard = await client.rest()
        (tmp_path / "go").touch()
        read = await call(
            shared_daemon, "shell_send_input", session_id=session, input="", wait_ms=10_000, until="early"
        )
        path = next(each["output_path"] for each in await _sessions(shared_daemon) if each["id"] == session)
        await eventually(Path(path).read_text, lambda text: "late" in text)
        await start(shared_daemon, "echo next")
        following = await client.next()
    assert text(heard) == "early\n"
    assert read["exit_code"] == 0
    assert following.data["chunk"] == "next\n"


async def test_a_chunk_never_ends_inside_a_character(shared_daemon: Daemon) -> None:
    written = "ä€😀" * 40_000
    async with events(shared_daemon) as client:
        program = (
            "import sys,os,time; d=('ä€😀'*40000).encode(); [os.write(1, d[i:i+997]) for i in range(0,len(d),997)]"
        )
        await start(shared_daemon, f'python3 -c "{program}"')
        heard = await client.rest()
    assert text(heard) == written
    place = 0
    for each in heard[:-1]:
        assert each.data["offset"] == place
        place += len(each.data["chunk"].encode())


async def test_bytes_that_are_no_text_are_replaced_in_events_and_stay_in_the_spool(shared_daemon: Daemon) -> None:
    async with events(shared_daemon) as client:
        session = await start(shared_daemon, r"printf 'a\377\376b'")
        heard = await client.rest()
    path = next(each["output_path"] for each in await _sessions(shared_daemon) if each["id"] == session)
    assert text(heard) == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b"
    assert Path(path).read_bytes() == b"a\xff\xfeb"


async def test_one_session_is_heard_from_any_offset(shared_daemon: Daemon) -> None:
    session = await start(shared_daemon, "printf 0123456789")
    await call(shared_daemon, "shell_send_input", session_id=session, input="", wait_ms=10_000)
    for query, expected in (("since=0", "0123456789"), ("since=7", "789"), ("since=-2", "89")):
        async with events(shared_daemon, f"?session_id={session}&{query}") as client:
            assert text(await client.rest()) == expected


async def test_a_client_that_comes_back_goes_on_where_it_was(shared_daemon: Daemon) -> None:
    async with events(shared_daemon) as client:
        first = await start(shared_daemon, "cat")
        second = await start(shared_daemon, "cat")
        for session, line in ((first, "a1\n"), (second, "b1\n")):
            await call(shared_daemon, "shell_send_input", session_id=session, input=line)
            last = await client.next("shell_session_output")
            assert last.data["chunk"] == line
    for session, line in ((first, "a2\n"), (second, "b2\n"), (first, "a3\n")):
        await call(shared_daemon, "shell_send_input", session_id=session, input=line, wait_ms=5_000)
    assert last.id is not None
    async with events(shared_daemon, Last_Event_ID=last.id) as client:
        chunks = [(await client.next("shell_session_output")).data["chunk"] for _ in range(3)]
    for session in (first, second):
        await call(shared_daemon, "shell_stop_session", session_id=session)
    assert chunks == ["a2\n", "b2\n", "a3\n"]


async def test_an_id_of_another_start_is_answered_with_a_gap_and_all_there_is(shared_daemon: Daemon) -> None:
    session = await start(shared_daemon, "echo here; exec sleep 300")
    await call(shared_daemon, "shell_send_input", session_id=session, input="", wait_ms=5_000)
    async with events(shared_daemon, f"?session_id={session}", Last_Event_ID="0123456789.77") as client:
        gap = await client.next()
        heard = await client.next()
    await call(shared_daemon, "shell_stop_session", session_id=session)
    assert (gap.name, "restarted" in gap.data["reason"]) == ("gap", True)
    assert heard.data["chunk"] == "here\n"


async def test_a_client_that_missed_what_is_gone_is_told_which_bytes(home: Path) -> None:
    with running(home, "--session-spool-mib", "8") as daemon:
        async with events(daemon) as client:
            session = await start(daemon, "echo first; cat")
            seen = await client.next("shell_session_output")
        # A flood that nobody watches: a stopped reader is not waited for.
        flood = await start(daemon, f"head -c {64 * _MIB} /dev/zero | tr '\\0' x")
        await call(daemon, "shell_send_input", session_id=flood, input="", wait_ms=20_000, until="never")
        assert seen.id is not None
        async with events(daemon, Last_Event_ID=seen.id) as client:
            heard = await client.rest()
        await call(daemon, "shell_stop_session", session_id=session)
    gaps = [each.data for each in heard if each.name == "gap"]
    assert [gap["session_id"] for gap in gaps] == [flood]
    assert _MIB <= gaps[0]["offset"] <= _MIB + 65_536
    assert gaps[0]["lost_bytes"] == gaps[0]["next_offset"] - gaps[0]["offset"]
    assert len(text(heard)) + gaps[0]["lost_bytes"] == 64 * _MIB


async def test_ten_sessions_at_once_reach_a_client_that_keeps_taking_without_loss(home: Path) -> None:
    size = (50 if IS_LONG else 8) * _MIB
    with running(home, "--session-spool-mib", "8") as daemon:
        async with events(daemon) as client:
            commands = [f"yes 'line of {number}' | head -c {size}" for number in range(10)]
            started = [await start(daemon, command) for command in commands]
            digests = {session: hashlib.sha256() for session in started}
            places = dict.fromkeys(started, 0)
            left = set(started)
            while left:
                heard = await client.next()
                session = heard.data["session_id"]
                if heard.name == "shell_session_exit":
                    left.discard(session)
                    continue
                assert heard.name == "shell_session_output"
                assert heard.data["offset"] == places[session]
                data = heard.data["chunk"].encode()
                places[session] += len(data)
                digests[session].update(data)
    assert list(places.values()) == [size] * 10
    for number, session in enumerate(started):
        line = f"line of {number}\n".encode()
        expected = hashlib.sha256((line * (size // len(line) + 1))[:size])
        assert digests[session].hexdigest() == expected.hexdigest()


@pytest.mark.alone
async def test_a_client_that_stops_reading_delays_nobody_and_costs_little(home: Path) -> None:
    size = (1024 if IS_LONG else 160) * _MIB
    with running(home) as daemon, _sleeping_client(daemon):
        async with events(daemon) as client, daemon.http() as http:
            before = _resident_bytes(daemon)
            await start(daemon, f"yes | head -c {size}")
            taken, worst_s, most = 0, 0.0, before
            while (heard := await client.next()).name != "shell_session_exit":
                assert heard.name == "shell_session_output"
                taken += len(heard.data["chunk"])
                if taken // (16 * _MIB) != (taken - len(heard.data["chunk"])) // (16 * _MIB):
                    began = time.monotonic()
                    assert (await http.get("/health")).status_code == 200
                    worst_s = max(worst_s, time.monotonic() - began)
                    most = max(most, _resident_bytes(daemon))
    assert taken == size
    assert most - before <= 64 * _MIB
    assert worst_s < 1


async def test_a_line_of_many_megabytes_without_a_newline_arrives_whole(shared_daemon: Daemon) -> None:
    size = (100 if IS_LONG else 20) * _MIB
    async with events(shared_daemon) as client:
        await start(shared_daemon, f"head -c {size} /dev/zero | tr '\\0' x")
        heard = await client.rest()
    assert len(text(heard)) == size
    assert [each.name for each in heard if each.name == "gap"] == []


async def test_connections_that_come_and_go_leave_no_descriptor(home: Path) -> None:
    count = 2_000 if IS_LONG else 300
    with running(home) as daemon:
        session = await start(daemon, "while true; do echo tick; sleep 0.01; done")
        before = _descriptors(daemon)
        for _ in range(count // 20):
            for client in [_raw_client(daemon) for _ in range(20)]:
                client.close()
        await eventually(lambda: _descriptors(daemon), lambda count: count <= before + 5)
        await call(daemon, "shell_stop_session", session_id=session)
        async with daemon.http() as http:
            await eventually(lambda: http.get("/health"), lambda answer: answer.json()["clients"]["streams"] == 0)


async def test_two_hundred_clients_hear_the_same(home: Path) -> None:
    with running(home) as daemon:
        clients = [_raw_client(daemon) for _ in range(200)]
        try:
            session = await start(daemon, "seq 1 1000; exit 0")
            whole = "".join(f"{number}\\n" for number in range(1, 1_001)).encode()
            for client in clients:
                heard = await asyncio.to_thread(_until_exit, client)
                assert session.encode() in heard
                assert heard.count(b"event: shell_session_exit") == 1
                assert whole.startswith(heard.partition(b'"chunk":"')[2].partition(b'"')[0])
        finally:
            for client in clients:
                client.close()


async def test_a_caller_without_the_shell_hears_nothing(daemon: Daemon) -> None:
    daemon.save({"profiles": [{"id": "default", "categories": [{"id": "shell", "enabled": False}]}]})
    async with daemon.http() as http:
        await eventually(lambda: http.get("/health"), lambda answer: answer.json()["registry"]["reloads"])
        refused = await http.get("/events")
    assert refused.status_code == 403


async def test_a_reload_that_takes_the_shell_away_ends_the_stream(daemon: Daemon) -> None:
    async with events(daemon) as client:
        assert daemon.cli("disable", "shell").returncode == 0
        with pytest.raises(EOFError):
            await client.next()


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("?since=3", 400, "since counts the bytes of one session"),
        ("?session_id=s1&since=x", 400, "must be a whole number"),
        ("?session_id=s00000000", 404, "there is no session 's00000000'"),
        ("?sesion_id=1", 400, "there is no parameter 'sesion_id'"),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(
    shared_daemon: Daemon, query: str, status: int, message: str
) -> None:
    async with shared_daemon.http() as http:
        answer = await http.get(f"/events{query}")
    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]


async def _sessions(daemon: Daemon) -> list[dict[str, str]]:
    async with daemon.http() as http:
        found: list[dict[str, str]] = (await http.get("/api/sessions")).json()["sessions"]
        return found


def _raw_client(daemon: Daemon) -> socket.socket:
    """A connection to /events that is open and known to the daemon."""
    url = urlsplit(daemon.url)
    client = socket.create_connection((url.hostname or "", url.port or 0), timeout=PATIENCE_S)
    client.sendall(
        f"GET /events HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: Bearer {daemon.token}\r\n\r\n".encode()
    )
    heard = b""
    while b": connected" not in heard:
        heard += client.recv(4_096)
    return client


class _sleeping_client:  # noqa: N801 - a context manager, used as a function
    """A client that has stopped reading, as a laptop that has been closed."""

    def __init__(self, daemon: Daemon) -> None:
        self._client = _raw_client(daemon)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._client.close()


def _until_exit(client: socket.socket) -> bytes:
    heard = b""
    while b"shell_session_exit" not in heard or not heard.rstrip(b"\r\n").endswith(b"}"):
        heard += client.recv(65_536)
    return heard


def _resident_bytes(daemon: Daemon) -> int:
    return int(Path(f"/proc/{daemon.process.pid}/statm").read_text().split()[1]) * 4_096


def _descriptors(daemon: Daemon) -> int:
    return sum(1 for _ in Path(f"/proc/{daemon.process.pid}/fd").iterdir())


async def test_an_id_that_is_too_long_is_refused(shared_daemon: Daemon) -> None:
    """Python does not make a number of so many digits."""
    async with events(shared_daemon) as client:
        await start(shared_daemon, "echo one")
        heard = await client.next("shell_session_output")
    assert heard.id is not None
    boot = heard.id.partition(".")[0]
    async with shared_daemon.http() as http:
        answer = await http.get("/events", headers={"Last-Event-ID": f"{boot}.{'9' * 5_000}"})
    assert (answer.status_code, answer.json()) == (
        400,
        {"error": {"message": "Last-Event-ID has 5011 characters, and no id of ours has so many"}},
    )


async def test_a_cursor_that_is_too_long_is_no_part_of_an_artifact(shared_daemon: Daemon) -> None:
    done = await call(shared_daemon, "shell_exec", command="seq 1 9999", max_output_bytes=256)
    for digits in (20, 5_000):
        answer = await shared_daemon.rpc("resources/read", uri=f"{done['artifactRef']}?cursor={'9' * digits}")
        assert answer["error"]["code"] != -32603, answer
