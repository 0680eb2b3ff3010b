"""A stop is the end of every process, however it forks; what cannot be ended is named."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.events.hub import EventHub
from tests.support.shell_host import ShellHost
from tests.support.waiting import PATIENCE_S, eventually, eventually_sync
from tools.context import ToolContext
from tools.files.paths import OpenPaths
from tools.sessions import process_end, process_tree
from tools.sessions.crash_record import CrashRecord
from tools.sessions.manager import SessionLimits, SessionManager
from tools.sessions.origin import Origin
from tools.sessions.process_tree import ProcessId
from tools.shell.session_tools import shell_stop_session

_NOBODY = 65_534
# Looks that miss a process in the moment of an exec, after which the test has seen enough.
_MISSED = 200 if os.environ.get("MCP_AGENT_TEST_LONG") else 20

# Forks, detaches itself and exits, for ever; each process lives `pause` seconds. It counts in a file.
_HOPPER = """
import os, signal, sys, time
path, pause, end = sys.argv[1], float(sys.argv[2]), time.time() + 60
if sys.argv[3:]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
for descriptor in range(3):
    os.close(descriptor)
number = 0
while time.time() < end:
    if os.fork():
        os._exit(0)
    os.setsid()
    number += 1
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(file, b"%d" % number)
    os.close(file)
    time.sleep(pause)
"""

# Its first thread ends, its second runs on: the process looks like a zombie.
_HEADLESS = """
import ctypes, os, sys, threading, time
def live():
    print("ready", os.getpid(), flush=True)
    time.sleep(60)
threading.Thread(target=live).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.mark.parametrize("ignores_term", [False, True], ids=["TERM", "ignores TERM"])
@pytest.mark.parametrize("pause_s", [0, 0.001, 0.03])
async def test_a_program_that_forks_and_exits_for_ever_does_not_outlive_a_stop(
    shell: ShellHost, pause_s: float, ignores_term: bool
) -> None:
    beat = shell.folder / "beat"
    words = [sys.executable, "-ISc", _HOPPER, str(beat), str(pause_s), *(["ignore"] if ignores_term else [])]
    session = shell.daemon.sessions.start(shlex.join(words), shell.folder, origin=Origin(connection=""))
    await eventually(lambda: beat.exists() and int(beat.read_bytes() or b"0") > 3)
    ending = await session.stop(signal.SIGTERM, 0.2)
    reached = beat.read_bytes()
    assert (shell.processes(), ending.left) == (set(), ())
    await asyncio.sleep(0.1)
    assert beat.read_bytes() == reached


async def test_a_process_whose_first_thread_has_ended_does_not_outlive_a_stop(shell: ShellHost) -> None:
    command = f"setsid {shlex.join([sys.executable, '-c', _HEADLESS])} & wait"
    session_id = await shell.start(command)
    pid = int((await shell.read(session_id, r"ready \d+\n"))["output"].split()[1])
    session = shell.daemon.sessions.find(session_id)
    headless = await eventually(lambda: _without_first_thread(pid))
    assert headless is not None
    await session.stop(signal.SIGTERM, 0.2)
    assert not process_tree.is_alive(headless)


def test_the_processes_of_a_dead_daemon_are_ended_though_they_keep_forking(tmp_path: Path) -> None:
    """As the next start does it: without an event loop, and without being their subreaper."""
    beat, value = tmp_path / "beat", f"dead-{os.getpid()}-{tmp_path.name}"
    words = [sys.executable, "-ISc", _HOPPER, str(beat), "0.001", "ignore"]
    with subprocess.Popen(words, env={process_tree.TAG: value}):
        pass
    eventually_sync(lambda: beat.exists() and int(beat.read_bytes() or b"0") > 3)
    tree = process_tree.Tree(process_tree.environment_entry(value))
    assert process_end.end_blocking(tree, 0.1) > 0
    assert tree.look() == set()


@pytest.fixture
def root_folder() -> Iterator[Path]:
    """A folder that another user can read, for a test that becomes that user."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can start a process that another user may not end")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_a_stop_names_what_it_cannot_end(root_folder: Path) -> None:
    """A daemon without rights starts a program that becomes root, as sudo does."""
    become_root = root_folder / "become_root"
    shutil.copy(str(shutil.which("setpriv")), become_root)
    become_root.chmod(0o4755)
    reading, writing = os.pipe()
    daemon = os.fork()
    if not daemon:
        try:
            told = asyncio.run(_stop_as_nobody(root_folder, become_root))
        except BaseException as error:
            told = {"error": repr(error)}
        os.write(writing, json.dumps(told).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        told = json.loads(file.read())
    os.waitpid(daemon, 0)
    assert "error" not in told, told
    pid = int(told["left"][0].split()[0])
    os.kill(pid, signal.SIGKILL)
    assert (told["stopped"], told["left"]) == (False, [f"{pid} sleep 60"])
    assert told["text"].startswith(f"[session {told['session_id']} not stopped · ")
    assert f"still alive: {pid} sleep 60" in told["text"]


async def _stop_as_nobody(folder: Path, become_root: Path) -> dict[str, Any]:
    manager = SessionManager(EventHub(), CrashRecord(folder / "sessions"), SessionLimits(grace_s=0.1), secret="")
    # Once as root, so that all modules are loaded: the other user may not be able to read them.
    warm = manager.start("true", folder, origin=Origin(connection=""))
    await warm.wait_for_exit(PATIENCE_S)
    await warm.stop(signal.SIGTERM)
    for path in (folder, *(folder / "sessions").rglob("*"), folder / "sessions"):
        os.chown(path, _NOBODY, _NOBODY)
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    command = f"{become_root} --reuid=0 --regid=0 --clear-groups sleep 60 & echo started; wait"
    session = manager.start(command, folder, origin=Origin(connection=""))
    await eventually(lambda: _first_child(session.pid).startswith(b"sleep"))
    ctx = ToolContext("", OpenPaths(folder, ()), sessions=manager)
    stopped = await shell_stop_session.function(ctx, session_id=session.id)
    return {"session_id": session.id, "stopped": stopped.stopped, "left": stopped.left, "text": stopped.render()}


async def test_a_session_can_be_stopped_with_no_descriptors_left(shell: ShellHost) -> None:
    """Stopping is what frees descriptors."""
    session = shell.daemon.sessions.find(await shell.start("sleep 60 & sleep 60"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        ending = await session.stop(signal.SIGTERM, 0.5)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (session.is_running, session.signal) == (False, "TERM")
    assert (ending.left, shell.processes()) == ((), set())


def test_a_process_that_is_being_reaped_ends_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen under load: a stop failed, because the kernel listed no thread any more of a process of somebody else."""
    headless = subprocess.Popen([sys.executable, "-ISc", _HEADLESS], stdout=subprocess.DEVNULL)
    try:
        eventually_sync(lambda: _without_first_thread(headless.pid))
        list_folder = os.listdir
        monkeypatch.setattr(os, "listdir", lambda path: [] if str(path).endswith("/task") else list_folder(path))
        assert process_tree.find(b"A_TAG_OF_NOBODY=") == set()
    finally:
        headless.kill()
        headless.wait()


def test_a_process_in_the_moment_of_an_exec_is_not_taken_for_gone(tmp_path: Path) -> None:
    """It shows no environment then. Two such looks in a row, and a stop said that nothing was left."""
    again = tmp_path / "again"
    again.write_text('#!/bin/sh\nexec "$0"\n')
    again.chmod(0o700)
    tag = process_tree.environment_entry("a-tag-of-this-test")
    process = subprocess.Popen([again], env={process_tree.TAG: "a-tag-of-this-test"})
    try:
        seen: list[tuple[bool, bool]] = []
        while len(seen) < 1_000 and seen.count((False, True)) < _MISSED:
            tree = process_tree.Tree(tag)
            seen.append((bool(tree.look()), tree.may_have_missed_one))
    finally:
        process.kill()
        process.wait()
    assert (False, False) not in seen
    assert (False, True) in seen


def test_a_process_without_an_environment_does_not_hold_up_a_stop() -> None:
    process = subprocess.Popen(["sleep", "60"], env={})
    try:
        eventually_sync(Path(f"/proc/{process.pid}/cmdline").read_bytes, lambda words: words == b"sleep\x0060\0")
        tree = process_tree.Tree(b"A_TAG_OF_NOBODY=")
        # Zombies of other tests are a trail to the first look.
        tree.look()
        assert (tree.look(), tree.may_have_missed_one) == (set(), False)
    finally:
        process.kill()
        process.wait()


def _without_first_thread(pid: int) -> ProcessId | None:
    """The process, once its first thread has ended and others go on."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return ProcessId(pid, int(fields[19])) if fields[0] == "Z" and int(fields[17]) > 1 else None


def _first_child(pid: int) -> bytes:
    """The command line of the first child of a process; empty if it has none."""
    try:
        child = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
        return Path(f"/proc/{child}/cmdline").read_bytes()
    except (OSError, IndexError):
        return b""
