"""Where the daemon has a control group of its own, nothing escapes a stop."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import COMMAND, Daemon, running
from tests.support.event_stream import call, start
from tests.support.waiting import eventually, eventually_sync
from tools.sessions import process_tree
from tools.sessions.process_tree import ProcessId

# Its environment is empty, its session is its own, and its parent is gone: no search finds it.
_ESCAPES = "env -i setsid sh -c 'trap \"\" TERM; sleep 60 & echo $! > {path}' & wait"


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Path]:
    """A control group that is marked as systemd marks one with Delegate=yes."""
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup2 " in line]
    if not mounts or not os.access(mounts[0][4], os.W_OK):
        pytest.skip("there is no cgroup v2 here, or only root can make a group in it")
    group = Path(mounts[0][4]) / f"test-{os.getpid()}-{tmp_path.name}"
    group.mkdir()
    try:
        os.setxattr(group, "user.delegate", b"1")
        yield group
    finally:
        (group / "cgroup.kill").write_text("1")
        eventually_sync(lambda: "populated 0" in (group / "cgroup.events").read_text())
        for path in (*group.glob("*/"), group):
            path.rmdir()


@pytest.fixture
def daemon(home: Path, group: Path) -> Iterator[Daemon]:
    joining = f'echo $$ > {group}/cgroup.procs; exec "$@"'
    with running(home, start=("sh", "-c", joining, "sh", COMMAND)) as daemon:
        yield daemon


async def test_a_stop_ends_what_no_search_finds(daemon: Daemon, group: Path, tmp_path: Path) -> None:
    session = await start(daemon, f"{_ESCAPES.format(path=tmp_path / 'pid')}; exec sleep 60")
    escaped = await _escaped(tmp_path / "pid")
    assert process_tree.find(process_tree.environment_entry("")).isdisjoint({escaped})
    stopped = await call(daemon, "shell_stop_session", session_id=session)
    assert stopped["stopped"] is True
    assert not process_tree.is_alive(escaped)
    assert [path.name for path in group.iterdir() if path.is_dir()] == []


async def test_the_end_of_the_daemon_ends_what_a_call_left_running(daemon: Daemon, group: Path, tmp_path: Path) -> None:
    await call(daemon, "shell_exec", command=_ESCAPES.format(path=tmp_path / "pid"))
    escaped = await _escaped(tmp_path / "pid")
    assert process_tree.is_alive(escaped)
    daemon.process.terminate()
    daemon.process.wait()
    assert not process_tree.is_alive(escaped)


async def _escaped(path: Path) -> ProcessId:
    await eventually(lambda: path.exists() and path.read_text().strip())
    pid = int(path.read_text())
    await eventually(lambda: b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes())
    began = process_tree.start_time(pid)
    assert began is not None
    return ProcessId(pid, began)
