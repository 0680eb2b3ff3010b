"""The shell of a person in Open WebUI, over real WebSockets."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin

from mcp_agent.calls.call import OPEN_TERMINAL, Caller
from mcp_agent.open_terminal import person_shell, terminals
from mcp_agent.open_terminal.mode_queries import ModeQueries
from registry.gate import Access
from tests.support.daemon import Daemon, running
from tests.support.open_terminal import PATH, get, post, terminal
from tests.support.raw import request
from tests.support.shell_host import ShellHost
from tests.support.waiting import eventually
from tests.support.websocket import Shell, address, attached, reserve, shell_of
from tools.sessions import process_tree
from tools.sessions.process import Terminal

_RULES = (
    '{"version": 1, "activeProfile": "default", "profiles": [{"id": "default", "deny": {"commands": '
    '[{"id": "no-halt", "pattern": "halt", "reason": "the machine stays on"}]}}]}'
)


_UPGRADE: dict[str, Any] = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("home"), extra={"SHELL": "/bin/sh", "PS1": "$ "}) as started:
        yield started


def _processes_of(daemon: Daemon) -> list[str]:
    """The command lines of all processes that this daemon has started for persons."""
    lines = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != daemon.process.pid:
            try:
                if f"{process_tree.TAG}=".encode() in (entry / "environ").read_bytes():
                    status = (entry / "stat").read_text()
                    if f") S {daemon.process.pid} " in status or f") R {daemon.process.pid} " in status:
                        lines.append((entry / "cmdline").read_bytes().decode())
            except OSError:
                continue
    return lines


async def test_a_person_types_into_a_shell_and_sees_what_it_prints(machine: Daemon) -> None:
    async with shell_of(machine) as opened:
        await opened.type("echo one-$((40 + 2)); tty; pwd\r")
        shown = await opened.sees(f"{machine.home}")
        assert "one-42" in shown
        assert "/dev/pts/" in shown
        await opened.type("exit 3\r")
        assert await opened.closed() == (1000, "the shell has ended with exit code 3")


async def test_it_begins_where_the_file_browser_is_with_the_size_of_the_page(machine: Daemon) -> None:
    (machine.home / "opened").mkdir(exist_ok=True)
    async with terminal(machine, chat="place") as page:
        await post(page, "/files/cwd", path=str(machine.home / "opened"))
    async with shell_of(machine, chat="place") as opened:
        await opened.type("pwd; stty size\r")
        shown = await opened.sees("30 100")
        assert str(machine.home / "opened") in shown
        await opened.say(type="ping")
        await opened.say(type="resize", cols=77, rows=11)
        await opened.type("stty size\r")
        await opened.sees("11 77")
        # What is no size is left alone, and what is too large is cut.
        await opened.say(type="resize", cols="x", rows=None)
        await opened.say(type="resize", cols=5_000, rows=0)
        await opened.type("stty size\r")
        await opened.sees("1 1000")


async def test_a_shell_ends_with_its_connection_and_all_that_it_started(machine: Daemon) -> None:
    async with shell_of(machine, chat="ends") as opened:
        await opened.type("(sleep 300 & sleep 301 &) ; echo started; sleep 302\r")
        await opened.sees("started\r\n")
        assert _processes_of(machine)
    await eventually(lambda: _processes_of(machine), lambda left: left == [])


async def test_the_first_message_of_a_chat_leaves_a_shell_that_was_typed_into(machine: Daemon) -> None:
    """A chat has no id before; with it, the page closes its connection and opens another."""
    chat = f"new-{uuid.uuid4().hex}"
    async with shell_of(machine, user="u-new", chat="") as before:
        await before.type("kept=4; sleep 305 & echo typed-$((kept + 1))\r")
        await before.sees("typed-5")
    async with shell_of(machine, user="u-new", chat=chat) as after:
        await after.sees("typed-5")
        await after.type("echo still-$((kept + 2))\r")
        await after.sees("still-6")
        await after.type("jobs; echo listed-$((kept + 3))\r")
        assert "sleep 305" in (await after.sees("listed-7")).rpartition("still-6")[2]
    await eventually(lambda: _processes_of(machine), lambda left: left == [])


async def test_a_chat_that_was_there_before_and_another_user_get_shells_of_their_own(machine: Daemon) -> None:
    async with shell_of(machine, user="u-own", chat="") as before:
        await before.type("kept=4; echo typed-$((kept + 1))\r")
        await before.sees("typed-5")
    async with shell_of(machine, user="u-else", chat=f"new-{uuid.uuid4().hex}") as other:
        await other.type("echo own-${kept:-none}\r")
        assert "typed-5" not in await other.sees("own-none")


async def test_much_output_arrives_whole_and_probes_are_answered_meanwhile(machine: Daemon) -> None:
    async with shell_of(machine, chat="much") as opened, terminal(machine, chat="probe") as page:
        await opened.type("seq 1 300000; echo all-of-it | tr a-z A-Z\r")
        for _ in range(5):
            assert (await get(page, "/api/config"))["features"]["terminal"] is True
        shown = await opened.sees("ALL-OF-IT")
    assert "".join(f"{number}\r\n" for number in range(1, 300_001)) in shown


async def test_the_question_for_a_mode_is_not_shown(machine: Daemon) -> None:
    async with shell_of(machine) as opened:
        # The second one comes in two pieces.
        await opened.type(
            r"printf 'A\033[?12$pB\033[?20'; sleep 0.2; printf '26$pC\033[4$pD\033[?25hE\n'; echo o''ver" + "\r"
        )
        await opened.sees("over")
    assert b"AB" in opened.shown
    assert b"CD\x1b[?25hE" in opened.shown


def test_a_question_is_dropped_wherever_it_is_divided() -> None:
    output = b"\x1b[1mvim\x1b[?2026$p\x1b[?1;2$p\xe2\x80\xa6\x1b[?25l\x1b[$p\x1b[?7$q100$p"
    for size in range(1, len(output)):
        queries = ModeQueries()
        pieces = [queries.drop(output[at : at + size]) for at in range(0, len(output), size)]
        assert b"".join(pieces) == b"\x1b[1mvim\xe2\x80\xa6\x1b[?25l\x1b[?7$q100$p"
    # Nothing is held that cannot become one.
    assert ModeQueries().drop(b"\x1b[?" + b"1" * 65) == b"\x1b[?" + b"1" * 65


async def test_a_page_that_does_not_read_slows_its_shell_down(machine: Daemon) -> None:
    path = machine.home / "written"
    async with shell_of(machine, chat="slow") as opened:
        await opened.type(
            f"for i in $(seq 150); do head -c 100000 /dev/zero | tr '\\0' x; echo $i > {path}; done; echo '' END\r"
        )
        await eventually(path.exists)
        seen = [""]

        def stands_still() -> bool:
            before, seen[0] = seen[0], path.read_text()
            return before == seen[0] != ""

        # Two looks some time apart see the same: the shell waits for us.
        async def look() -> bool:
            await asyncio.sleep(0.3)
            return stands_still()

        await eventually(look)
        assert int(seen[0]) < 150
        await opened.sees(" END\r\n")


@pytest.mark.parametrize(
    ("first", "code", "reason"),
    [
        ('{"type": "auth", "token": "wrong"}', 4001, "the token is not valid"),
        ('{"type": "auth"}', 4001, "the first message must have the token"),
        ('{"type": "resize"}', 4001, "the first message must have the token"),
        ("[]", 1008, "a text message must be a small JSON object"),
        ("{", 1008, "a text message must be a small JSON object"),
        (b"ls\r", 1008, "a text message must be a small JSON object"),
        (json.dumps({"type": "auth", "token": "x" * 9_000}), 1008, "a text message must be a small JSON object"),
    ],
)
async def test_a_failed_attach_closes_and_gives_its_slot_back(
    machine: Daemon, first: str | bytes, code: int, reason: str
) -> None:
    for _ in range(terminals.MOST_OF_ONE + 1):
        terminal_id = await reserve(machine, chat="failed")
        async with attached(machine, terminal_id, chat="failed") as opened:
            await opened.connection.send(first)
            assert await opened.closed() == (code, reason)
    # The id is used up.
    async with attached(machine, terminal_id, chat="failed") as opened:
        await opened.say(type="auth", token=machine.token)
        assert await opened.closed() == (4004, "there is no such terminal")
    assert _processes_of(machine) == []


async def test_a_client_that_does_not_say_who_it_is_is_closed_after_five_seconds(machine: Daemon) -> None:
    async with attached(machine, await reserve(machine)) as opened:
        assert await opened.closed() == (4001, "no token came within 5 s")


@pytest.mark.parametrize(("user", "chat"), [("u-2", "c-1"), ("u-1", "c-2")])
async def test_an_id_belongs_to_who_asked_for_it(machine: Daemon, user: str, chat: str) -> None:
    terminal_id = await reserve(machine)
    async with terminal(machine, user=user, chat=chat) as other:
        assert (await other.delete(f"/api/terminals/{terminal_id}")).status_code == 404
    async with attached(machine, terminal_id, user=user, chat=chat) as opened:
        await opened.say(type="auth", token=machine.token)
        assert await opened.closed() == (4004, "there is no such terminal")


async def test_there_are_only_so_many_terminals_and_an_id_can_be_given_back(machine: Daemon) -> None:
    async with terminal(machine, user="greedy", chat="") as page:
        ids = [(await post(page, "/api/terminals"))["id"] for _ in range(terminals.MOST_OF_ONE)]
        refused = await page.post("/api/terminals")
        assert refused.status_code == 429
        assert refused.json()["detail"] == "too many terminals are open: there may be 8 of one user, and 16 in all"
        for terminal_id in ids:
            assert (await page.delete(f"/api/terminals/{terminal_id}")).json() == {"id": terminal_id}
        again = (await post(page, "/api/terminals"))["id"]
        await page.delete(f"/api/terminals/{again}")


async def test_a_terminal_that_is_deleted_is_closed(machine: Daemon) -> None:
    terminal_id = await reserve(machine)
    async with attached(machine, terminal_id) as opened, terminal(machine) as page:
        await opened.say(type="auth", token=machine.token)
        await opened.type("echo here\r")
        await opened.sees("here\r\n")
        await page.delete(f"/api/terminals/{terminal_id}")
        assert await opened.closed() == (1001, "the terminal was closed")


async def test_a_browser_that_is_allowed_connects_by_itself(home: Path) -> None:
    page = "https://chat.example"
    with running(home, "--allow-origin", page, extra={"SHELL": "/bin/sh"}) as daemon:
        async with terminal(daemon, user="", chat="direct") as client:
            answer = await client.post("/api/terminals", headers={"Origin": page})
            assert answer.headers["access-control-allow-origin"] == page
        url = address(daemon, answer.json()["id"]).partition("?")[0]
        async with connect(url, origin=Origin(page), proxy=None) as connection:
            opened = Shell(connection)
            await opened.say(type="auth", token=daemon.token, chat_id="direct")
            await opened.type("echo here\r")
            await opened.sees("here\r\n")


async def test_a_person_who_is_not_there_any_more_loses_the_shell(
    shell: ShellHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(person_shell, "IDLE_S", 0.0)
    sent: list[Message] = []

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async def send(message: Message) -> None:
        sent.append(message)

    async def check(_: Caller, line: str) -> None:
        raise AssertionError("nothing is typed")

    person = Caller("owner", Access(), OPEN_TERMINAL)
    idle = person_shell.PersonShell(person, receive, send, is_allowed=lambda _: True, check_line=check)
    idle.program = shell.daemon.sessions.start_program(
        "idle",
        ("/bin/sh",),
        shell.folder,
        {},
        on_output=idle.on_output,
        on_exit=idle.on_exit,
        terminal=Terminal(80, 24),
    )
    with pytest.raises(person_shell.Closed) as closed:
        await idle.run()
    assert (closed.value.code, closed.value.reason) == (4008, "nothing was heard for 0 s")
    await idle.program.hang_up()


async def test_a_foreign_page_and_a_foreign_name_open_nothing(machine: Daemon) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(address(machine, "x"), additional_headers={"Origin": "https://evil.example"}, proxy=None):
            pass
    assert refused.value.response.status_code == 403
    assert json.loads(refused.value.response.body)["error"]["message"] == "requests from other web pages are refused"
    answer = request(machine, "GET", f"{PATH}/api/terminals/x", **{**_UPGRADE, "Host": "evil.example"})
    assert (answer.status, "evil.example" in answer.message) == (421, True)


async def test_anywhere_else_an_upgrade_is_not_taken(machine: Daemon) -> None:
    for path in ("/openapi.json", f"{PATH}/execute", "/health", f"{PATH}/api/terminals"):
        answer = request(machine, "GET", path, **{**_UPGRADE, "Connection": "Upgrade, close"})
        assert answer.status in (200, 404)
    async with terminal(machine) as page:
        assert (await page.get("/api/terminals/x")).status_code == 404


async def test_a_message_that_is_too_large_ends_the_connection(machine: Daemon) -> None:
    async with shell_of(machine, chat="large") as opened:
        await opened.type(b"x" * (1024 * 1024 + 1))
        code, _ = await opened.closed()
        assert code == 1009


async def test_a_long_paste_arrives_whole(machine: Daemon) -> None:
    lines = "".join(f"line {number} of a text that is pasted\r" for number in range(4_000))
    async with shell_of(machine, chat="paste") as opened:
        await opened.type("stty -echo; cat > pasted; echo sa''ved\r")
        await eventually((machine.home / "pasted").exists)
        await opened.type(lines + "\x04")
        await opened.sees("saved\r\n")
    assert (machine.home / "pasted").read_text() == lines.replace("\r", "\n")


async def test_rules_hold_for_what_is_typed_and_the_audit_log_has_it(home: Path) -> None:
    (home / "tools.json").write_text(_RULES)
    with running(home, extra={"SHELL": "/bin/sh", "PS1": "$ "}) as daemon:
        async with shell_of(daemon) as opened:
            await opened.type("echo ha")
            await opened.type("lt; touch denied\r")
            shown = await opened.sees("the machine stays on")
            assert "touch denied" not in shown.split("the machine stays on")[1]
            # A line that was changed before it was sent is judged as it was sent.
            await opened.type("echo halt\x7f\x7ffe; touch allowed\r")
            await eventually((home / "allowed").exists)
        assert not (home / "denied").exists()
        calls = {line["tool"]: line for line in _audit(daemon) if "tool" in line}
        closed = await eventually(lambda: _audit(daemon, "--event", "terminal_closed"))
    assert (calls["shell_start_session"]["outcome"], calls["shell_start_session"]["claimed_user"]) == ("ok", "u-1")
    assert (calls["shell_send_input"]["outcome"], calls["shell_send_input"]["rule"]) == ("DENIED", "no-halt")
    assert [line["claimed_user"] for line in closed] == ["u-1"]


async def test_who_may_have_no_shell_is_told_so_and_loses_an_open_one(home: Path) -> None:
    with running(home, extra={"SHELL": "/bin/sh"}) as daemon:
        viewer = daemon.cli("token", "create", "viewer", "--profile", "read-only").stdout.splitlines()[1]
        other = daemon.cli("token", "create", "other").stdout.splitlines()[1]
        async with terminal(daemon, token=viewer) as page:
            refused = await page.post("/api/terminals")
            assert (refused.status_code, refused.json()["detail"]) == (403, "Tool shell_start_session is disabled")
        async with shell_of(daemon, token=other) as opened, shell_of(daemon, chat="own") as own:
            for each in (opened, own):
                await each.type("echo here\r")
                await each.sees("here\r\n")
            assert (await asyncio.to_thread(daemon.cli, "token", "revoke", "other")).returncode == 0
            assert await opened.closed() == (4003, "the token is no longer valid")
            switched = await asyncio.to_thread(daemon.cli, "disable", "shell")
            assert switched.returncode == 0
            # The person's shell is among the clients that see less now.
            assert "open-terminal" in switched.stdout, switched.stdout
            assert await own.closed() == (4003, "the shell was switched off")
            assert "the shell was switched off" in own.shown.decode()


async def test_a_daemon_that_stops_ends_every_shell(home: Path) -> None:
    with running(home, extra={"SHELL": "/bin/sh"}) as daemon:
        async with shell_of(daemon) as opened:
            await opened.type("echo $$ > pid; sleep 300\r")
            pid = int(await eventually(lambda: _text(home / "pid")))
            daemon.process.terminate()
            await opened.closed()
            assert await asyncio.to_thread(daemon.process.wait, 20) == 0
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


def _audit(daemon: Daemon, *flags: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in daemon.cli("audit", "--json", *flags).stdout.splitlines()]


def _text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


async def test_the_library_is_loaded_when_the_first_one_connects(home: Path) -> None:
    with running(home, extra={"SHELL": "/bin/sh"}) as daemon:
        loaded = Path(f"/proc/{daemon.process.pid}/maps")
        async with terminal(daemon) as page:
            await get(page, "/execute")
        assert "/websockets/" not in loaded.read_text()
        async with shell_of(daemon) as opened:
            await opened.type("echo here\r")
            await opened.sees("here\r\n")
        assert "/websockets/" in loaded.read_text()
