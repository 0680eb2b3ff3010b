"""Each store of the state folder under each fault of its disk: what `docs/operations.md` says happens, happens.

After the fault everything works again, without a restart.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.storage.artifact_store import ArtifactStore
from mcp_agent.storage.audit_log import AuditLog
from tests.support.broken_disk import FAULTS, BrokenDisk, Fault, on_broken_disk, small_disk
from tests.support.daemon import COMMAND, environment, running
from tests.support.event_stream import call, start
from tests.support.waiting import eventually
from tools.sessions import process_tree

_REASONS: dict[Fault, str] = {
    "full": "no space left on device",
    "read-only": "read-only file system",
    "removed": "",
    "another kind": "not a directory",
    "rights taken": "permission denied",
}

_PATCH = {"type": "replace_all", "pattern": "one", "replacement": "1"}


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokenDisk]:
    with on_broken_disk(tmp_path_factory.mktemp("home")) as disk:
        yield disk


@pytest.mark.parametrize("fault", FAULTS)
async def test_commands_run_and_sessions_are_read_whatever_the_disk_does(disk: BrokenDisk, fault: Fault) -> None:
    async def look() -> tuple[str, str, bool]:
        executed = await call(disk.daemon, "shell_exec", command="echo one")
        session = await start(disk.daemon, "echo ready; exec cat")
        sent = {"session_id": session, "input": "two\n", "until": "two\n", "wait_ms": 20_000, "since": 0}
        read = await call(disk.daemon, "shell_send_input", **sent)
        stopped = await call(disk.daemon, "shell_stop_session", session_id=session)
        return executed["stdout"], read["output"], stopped["stopped"]

    well = ("one\n", "ready\ntwo\n", True)
    assert await look() == well
    with disk.fault("state/sessions", fault):
        assert await look() == well
    assert await look() == well
    started = await call(disk.daemon, "shell_start_session", command="echo spooled")
    spool = disk.path(str(Path(started["output_path"]).relative_to(disk.folder)))
    await eventually(lambda: spool.exists() and spool.read_text() == "spooled\n")


@pytest.mark.parametrize("fault", FAULTS)
async def test_files_change_without_a_journal_and_nothing_is_deleted_for_good(disk: BrokenDisk, fault: Fault) -> None:
    async def look(name: str) -> tuple[Any, Any]:
        path = disk.daemon.home / name
        await call(disk.daemon, "fs_write", path=str(path), content="one\n")
        written = await call(disk.daemon, "fs_write", path=str(path), content="two\n", mode="overwrite")
        assert path.read_text() == "two\n"
        deleted = await call(disk.daemon, "fs_delete", path=str(path))
        assert path.exists() == ("error" in deleted)
        return written.get("why", "kept"), deleted.get("error", {}).get("code", "kept")

    why = f"the journal cannot be written: {_REASONS[fault]}"
    with disk.fault("state/journal", fault):
        told = await look(f"during {fault}")
    assert told == (("kept", "kept") if fault == "removed" else (why, "NOT_UNDOABLE"))
    assert await look(f"after {fault}") == ("kept", "kept")


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_long_result_comes_without_an_artifact(disk: BrokenDisk, fault: Fault) -> None:
    async def look() -> str:
        executed = await call(disk.daemon, "shell_exec", command="seq 1 9999", max_output_bytes=256)
        assert (executed["exit_code"], executed["missing_bytes"] > 0) == (0, True)
        if "artifactRef" not in executed:
            return "not kept"
        read = await call(disk.daemon, "artifact_read", ref=executed["artifactRef"], limit=4)
        # Another process sees the row too: it would be there after a restart.
        assert executed["artifactRef"] in _command(disk, "artifacts", "list").stdout
        return str(read["content"])

    with disk.fault("state/artifacts", fault):
        assert await look() == ("1\n2\n" if fault == "removed" else "not kept")
    assert await look() == "1\n2\n"


@pytest.mark.parametrize("fault", FAULTS)
async def test_calls_go_on_without_an_audit_log_and_lost_lines_are_counted(disk: BrokenDisk, fault: Fault) -> None:
    async def look(marker: str) -> bool:
        # Twelve of them are longer than a block of the disk.
        await call(disk.daemon, "fs_list", path=f"/{marker}/{'x' * 200}/{'x' * 200}")
        return marker in "".join(path.read_text() for path in disk.path("state/audit").glob("audit.jsonl*"))

    async def lost() -> int:
        async with disk.daemon.http() as http:
            return int((await http.get("/metrics")).text.partition("\nmcp_agent_audit_lines_lost_total ")[2].split()[0])

    before = await lost()
    with disk.fault("state/audit", fault):
        for number in range(12):
            await look(f"during-{number}")
    assert (await lost() > before) == (fault == "full")
    after = f"after-{fault.replace(' ', '-')}"
    assert await look(after)
    # What the disk cut off, in this test or in one before it, is skipped; the lines after it are whole.
    audited = _command(disk, "audit", "--since", "1h")
    damaged = re.fullmatch(r"(?:mcp-agent: (\d+) lines? (?:is|are) damaged and skipped\n)?", audited.stderr)
    assert damaged, audited.stderr
    assert int(damaged[1] or 0) <= await lost()
    assert after in audited.stdout
    # A full disk may have had no room for one line more.
    assert "during-0" in audited.stdout or fault in ("removed", "another kind", "full"), audited.stdout


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_question_gets_the_whole_text_when_it_could_not_be_recovered(disk: BrokenDisk, fault: Fault) -> None:
    async def look(marker: str) -> str:
        path = disk.daemon.home / "code.py"
        path.write_text("".join(f"def f{number}():\n    return {number}  # {marker}\n\n" for number in range(400)))
        question = {"context_focus_question": "what does f77 return?"}
        pruning = (await call(disk.daemon, "fs_read", path=str(path), **question))["pruning"]
        return "kept" if pruning["applied"] else str(pruning["error"]["message"])

    with disk.fault("state/artifacts", fault):
        told = await look(f"during {fault}")
    reason = f"the whole text cannot be kept for recover_text: {_REASONS[fault]}"
    assert told == ("kept" if fault == "removed" else reason)
    assert await look(f"after {fault}") == "kept"


@pytest.mark.parametrize("fault", FAULTS)
async def test_tokens_stay_valid_and_a_new_one_is_made_or_refused_as_a_whole(disk: BrokenDisk, fault: Fault) -> None:
    def create(name: str) -> tuple[int, str]:
        created = _command(disk, "token", "create", name)
        assert "Traceback" not in created.stderr, created.stderr
        return created.returncode, created.stderr

    name = fault.replace(" ", "-")
    assert create(f"before-{name}") == (0, "")
    with disk.fault("state/tokens.json", fault):
        code, told = create(f"during-{name}")
        reason = "is a directory" if fault == "another kind" else _REASONS[fault]
        assert (code == 0) if fault == "removed" else (code != 0 and reason in told.lower()), told
        assert (await call(disk.daemon, "shell_exec", command="echo in"))["stdout"] == "in\n"
    assert create(f"after-{name}")[0] == 0
    listed = _command(disk, "token", "list").stdout
    assert (f"after-{name}" in listed, f"during-{name}" in listed) == (True, fault == "removed")


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_switch_is_saved_or_refused_and_the_policy_stays(disk: BrokenDisk, fault: Fault) -> None:
    async def switch(enabled: bool) -> tuple[int, str]:
        async with disk.daemon.http() as http:
            answer = await http.post("/api/switch", json={"target": "fs_search", "enabled": enabled})
        told = answer.json()
        return answer.status_code, told["error"]["message"] if "error" in told else ""

    async def is_off() -> bool:
        answer = await disk.daemon.rpc("tools/call", name="fs_search", arguments={"base": ".", "glob": "*"})
        return "TOOL_DISABLED" in json.dumps(answer)

    assert (await switch(enabled=False))[0] == 200
    with disk.fault("config/tools.json", fault):
        code, told = await switch(enabled=True)
        assert code == (200 if fault == "removed" else 409), told
        if fault == "removed":
            assert (await switch(enabled=False))[0] == 200
        else:
            reason = "no regular file" if fault == "another kind" else _REASONS[fault]
            assert told.startswith(f"{disk.folder / 'config' / 'tools.json'} ")
            assert told.endswith(reason)
        assert await is_off()
    assert (await switch(enabled=True))[0] == 200
    assert not await is_off()


async def test_a_state_folder_that_may_not_be_entered_is_an_internal_error_of_no_tool(disk: BrokenDisk) -> None:
    path = disk.daemon.home / "of all tools"
    path.write_text("one\n" * 1_000)
    executed = await call(disk.daemon, "shell_exec", command="seq 1 9999", max_output_bytes=256)
    undo = (await call(disk.daemon, "fs_write", path=str(path), content="two\n", mode="append"))["undo_id"]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("fs_write", {"path": str(path), "content": "three\n", "mode": "append"}),
        ("fs_patch", {"path": str(path), "operations": [_PATCH]}),
        ("fs_read", {"path": str(path), "context_focus_question": "which number is the last?"}),
        ("fs_read", {"path": f"undo://{undo}"}),
        ("fs_move", {"from": f"undo://{undo}", "to": str(path)}),
        ("fs_move", {"from": str(path), "to": f"{path}-moved"}),
        ("fs_delete", {"path": f"{path}-moved"}),
        ("fs_list", {"path": str(disk.folder / "state")}),
        ("fs_grep", {"base": str(disk.folder), "pattern": "one"}),
        ("fs_search", {"base": str(disk.folder), "glob": "*"}),
        ("shell_exec", {"command": "seq 1 9999", "max_output_bytes": 256}),
        ("shell_start_session", {"command": "echo one"}),
        ("artifact_read", {"ref": executed["artifactRef"]}),
        ("health", {}),
    ]
    artifact = executed["artifactRef"].removeprefix("ax://")
    pages = ("/health", "/metrics", "/api/artifacts", f"/artifacts/{artifact}", "/api/changes", "/api/activity")
    with disk.fault("state", "rights taken"):
        answers = [await disk.daemon.rpc("tools/call", name=tool, arguments=given) for tool, given in calls]
        async with disk.daemon.http() as http:
            statuses = [(page, (await http.get(page)).status_code) for page in pages]
        answers += [await disk.daemon.rpc("resources/list")]
    assert [each for each in answers if "error" in each or "INTERNAL_ERROR" in str(each)] == []
    assert [each for each in statuses if each[1] == 500] == []
    assert (await call(disk.daemon, "artifact_read", ref=executed["artifactRef"], limit=4))["content"] == "1\n2\n"


def test_a_daemon_that_is_killed_while_its_disk_is_full_leaves_no_process(home: Path) -> None:
    """Its first command came when nothing could be written, so there was no record of it for the next start."""
    with small_disk(home) as disk:
        with running(home, *disk.arguments, start=disk.start) as daemon, disk.fault("state/sessions", "full"):
            started = asyncio.run(call(daemon, "shell_start_session", command="setsid sleep 300 & exec sleep 300"))
            assert started["pid"] > 0
            daemon.process.kill()
            daemon.process.wait()
        with running(home, *disk.arguments, start=disk.start) as daemon:
            left = process_tree.find(process_tree.environment_entry(""))
            assert not [each for each in left if f"HOME={home}\0".encode() in _environment(each.pid)]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


async def test_no_half_written_file_is_left_of_all_that(disk: BrokenDisk) -> None:
    left = [path for path in disk.path("state").rglob("*") if path.suffix in (".new", ".tmp", ".partial")]
    assert left == []
    assert disk.daemon.process.poll() is None


def test_lines_that_the_disk_cut_off_do_not_damage_the_next_ones(tmp_path: Path) -> None:
    """A line may be written in part when the disk becomes full."""
    import resource
    import signal

    before, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    log = AuditLog(tmp_path)
    log.note("first")
    size = (tmp_path / "audit.jsonl").stat().st_size
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, before[1]))
        log.note("cut")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    log.note("next")
    first, cut, following = (tmp_path / "audit.jsonl").read_bytes().splitlines()
    assert (json.loads(first)["event"], len(cut), json.loads(following)["event"]) == ("first", 20, "next")
    assert log.lost_lines == 1


def test_a_damaged_index_is_put_aside_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "index.sqlite").write_bytes(b"no database" * 100)
    store = ArtifactStore(tmp_path)
    store.recover()
    kept = store.keep("me", "shell", [b"text"], "text/plain")
    store.close()
    assert (tmp_path / "damaged-index.sqlite").read_bytes() == b"no database" * 100
    assert ArtifactStore(tmp_path).find(kept.reference) == kept


_STATE = ["sessions", "journal", "artifacts", "audit", "mounts"]
_STATE_FILES = ["daemon.json", "mcp-sessions.json"]


def test_a_daemon_starts_though_all_its_stores_are_something_else(home: Path) -> None:
    state = home / ".local" / "state" / "mcp-agent"
    state.mkdir(parents=True, mode=0o700)
    for name in _STATE:
        (state / name).touch()
    for name in _STATE_FILES:
        (state / name).mkdir()
    with running(home) as daemon:
        assert daemon.process.poll() is None


@pytest.mark.parametrize("name", ["token", "tokens.json"])
def test_a_daemon_without_tokens_says_why_it_does_not_start(home: Path, name: str) -> None:
    path = home / ".local" / "state" / "mcp-agent" / name
    path.mkdir(parents=True)
    started = subprocess.run(
        [COMMAND, "serve", "--port", "0"], env=environment(home), capture_output=True, text=True, check=False
    )
    assert started.returncode == 2
    assert f"{path} cannot be read: is a directory" in started.stderr


def _command(disk: BrokenDisk, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of ours, where the disk is mounted and with the rights of the daemon."""
    return disk.run(COMMAND, *words, "--state-dir", str(disk.folder / "state"))


async def test_a_folder_that_cannot_be_renamed_into_the_journal_is_deleted_and_brought_back(disk: BrokenDisk) -> None:
    """A folder without the right to write can be renamed where it is, and nowhere else."""
    locked = disk.path("locked")
    locked.mkdir(mode=0o555)
    shown = str(disk.folder / "locked")
    deleted = await call(disk.daemon, "fs_delete", path=shown)
    assert not locked.exists()
    await call(disk.daemon, "fs_move", **{"from": f"undo://{deleted['undo_id']}", "to": shown})
    assert locked.stat().st_mode & 0o777 == 0o555


async def test_a_refused_deletion_leaves_no_entry(disk: BrokenDisk) -> None:
    folder = disk.home / "closed"
    folder.mkdir()
    (folder / "file").write_text("one")
    folder.chmod(0o555)
    before = set(disk.path("state/journal").glob("*.json"))
    refused = await call(disk.daemon, "fs_delete", path=str(folder / "file"))
    assert refused["error"]["code"] == "PERMISSION_DENIED"
    assert (folder / "file").read_text() == "one"
    assert set(disk.path("state/journal").glob("*.json")) == before
