"""What the answer of a command says of files, and the way back through the tools and the command line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.calls.call import Call, Caller, Success
from registry.gate import Access
from tests.support.daemon import command
from tests.support.shell_host import shell_host
from tests.support.waiting import eventually
from tests.tools.effects.conftest import Workshop
from tests.tools.effects.snapshots import run, snapshot
from tools.effects import project_tree, tracker
from tools.effects.project_root import project_root
from tools.journal.journal import Journal


async def test_a_command_says_which_files_it_created_changed_and_deleted(workshop: Workshop) -> None:
    await workshop.is_read()
    done = await workshop.run("echo 2 > src/a.py; echo new > new.txt; rm src/b.py; touch src/c.py; ls > /dev/null")
    source = workshop.root / "src"
    assert done["effects"] == {
        "created": 1,
        "changed": 1,
        "deleted": 1,
        "paths": [str(source / "a.py"), str(workshop.root / "new.txt"), str(source / "b.py")],
    }
    assert done["undo_id"]
    for line in ("true", "cat src/a.py", "touch src/a.py", "mkdir x && rmdir x", "sed -i s/absent/x/ src/a.py"):
        assert "effects" not in await workshop.run(line), line


async def test_a_model_reads_one_short_line(workshop: Workshop) -> None:
    await workshop.is_read()
    caller = Caller("owner", Access(), "rpc")
    arguments = {"command": "sed -i s/1/2/ src/*.py; echo x > 'new file'", "cwd": str(workshop.root)}
    outcome = await workshop.host.daemon.dispatcher.call(Call("1", caller, "shell_exec", arguments))
    assert isinstance(outcome, Success)
    header, line = outcome.result.render().splitlines()
    undo_id = outcome.result.facts.change_id
    assert header.startswith("[exit 0 · ")
    assert line == f"[changed 3 files: src/a.py, src/b.py, src/c.py; created 1 file: new file · undo://{undo_id}]"


async def test_one_id_takes_all_of_it_back_and_the_undo_can_be_undone(workshop: Workshop) -> None:
    await workshop.is_read()
    before = snapshot(workshop.root)
    done = await workshop.run(
        "sed -i s/1/2/ src/*.py; mkdir -p deep/er; mv src/a.py deep/er; ln -s src link; rm src/b.py"
    )
    after = snapshot(workshop.root)
    undone = await workshop.undo(done["undo_id"])
    assert undone["to"] == str(workshop.root)
    assert snapshot(workshop.root) == before
    await workshop.undo(undone["undo_id"])
    assert snapshot(workshop.root) == after


async def test_one_path_of_a_command_is_read_put_back_and_put_elsewhere(workshop: Workshop) -> None:
    await workshop.is_read()
    done = await workshop.run("sed -i s/1/2/ src/*.py; rm src/b.py")
    old = f"undo://{done['undo_id']}/src/a.py"
    assert (await workshop.host.call("fs_read", path=old))["content"] == "a = 1\n"
    await workshop.undo(f"{done['undo_id']}/src/b.py", "kept.py")
    assert (workshop.root / "kept.py").read_text() == "b = 1\n"
    await workshop.undo(f"{done['undo_id']}/src/a.py", "src/a.py")
    texts = {path.name: path.read_text() for path in (workshop.root / "src").iterdir()}
    assert texts == {"a.py": "a = 1\n", "c.py": "c = 2\n"}
    # The rest has the same id.
    await workshop.undo(done["undo_id"])
    texts = {path.name: path.read_text() for path in (workshop.root / "src").iterdir()}
    assert texts == {f"{name}.py": f"{name} = 1\n" for name in "abc"}
    assert (await workshop.undo(done["undo_id"]))["error"]["code"] == "NOT_FOUND"


async def test_a_path_that_has_changed_since_keeps_all_of_it(workshop: Workshop) -> None:
    await workshop.is_read()
    done = await workshop.run("sed -i s/1/2/ src/*.py")
    (workshop.root / "src/b.py").write_text("mine\n")
    before = snapshot(workshop.root)
    refused = await workshop.undo(done["undo_id"])
    assert refused["error"]["code"] == "STALE_REV"
    assert "src/b.py" in refused["error"]["message"]
    assert "src/a.py" not in refused["error"]["message"]
    assert snapshot(workshop.root) == before
    forced = await workshop.undo(done["undo_id"], overwrite=True)
    assert (workshop.root / "src/b.py").read_text() == "b = 1\n"
    await workshop.undo(forced["undo_id"])
    assert snapshot(workshop.root) == before


async def test_an_edit_of_the_person_between_two_commands_is_not_the_commands(workshop: Workshop) -> None:
    await workshop.is_read()
    (workshop.root / "src/a.py").write_text("mine\n")
    done = await workshop.run("echo 2 > src/b.py")
    assert done["effects"]["paths"] == [str(workshop.root / "src/b.py")]
    await workshop.undo(done["undo_id"])
    assert (workshop.root / "src/a.py").read_text() == "mine\n"


async def test_what_two_commands_did_at_the_same_time_is_shared(workshop: Workshop) -> None:
    await workshop.is_read()
    gate = workshop.root / "src/gate"
    first = asyncio.create_task(workshop.run("echo 2 > src/a.py; until [ -e src/gate ]; do sleep 0.02; done"))
    await eventually(lambda: (workshop.root / "src/a.py").read_text() == "2\n")
    second = await workshop.run("echo 2 > src/b.py")
    gate.touch()
    both = await first
    assert second["effects"]["shared"] == [str(workshop.root / "src/b.py")]
    assert both["effects"]["shared"] == [str(workshop.root / "src/b.py")]
    refused = await workshop.undo(both["undo_id"])
    assert refused["error"]["code"] == "STALE_REV"
    assert (workshop.root / "src/a.py").read_text() == "2\n"
    await workshop.undo(both["undo_id"], overwrite=True)
    assert (workshop.root / "src/a.py").read_text() == "a = 1\n"


@pytest.mark.parametrize("tool", ["shell_exec", "bash", "shell_start_session"])
async def test_every_tool_that_runs_a_command_says_it(workshop: Workshop, tool: str) -> None:
    await workshop.is_read()
    done = await workshop.run("echo 2 > src/a.py; echo ok", tool)
    assert done["effects"]["paths"] == [str(workshop.root / "src/a.py")]
    await workshop.undo(done["undo_id"])
    assert (workshop.root / "src/a.py").read_text() == "a = 1\n"


async def test_a_session_says_what_it_changed_while_a_call_waited(workshop: Workshop) -> None:
    await workshop.is_read()
    started = await workshop.run("sh", "shell_start_session")
    done = await workshop.host.call(
        "shell_send_input", session_id=started["session_id"], input="echo 2 > src/a.py; echo ok\n", wait_ms=10_000
    )
    assert done["output"] == "ok\n"
    assert done["effects"]["paths"] == [str(workshop.root / "src/a.py")]


async def test_the_state_of_git_comes_back_and_no_git_is_run(workshop: Workshop) -> None:
    workshop.root.joinpath(".git").rmdir()
    run("git init -q -b main . && git add -A . && git commit -qm one && git branch other", workshop.root)
    (workshop.root / ".git/hooks/post-checkout").write_text(f"#!/bin/sh\ntouch {workshop.root}/hook-ran\n")
    await workshop.is_read()
    (workshop.root / "src/a.py").write_text("mine\n")
    before = snapshot(workshop.root)
    done = await workshop.run("git -c user.name=a -c user.email=a@b stash -q; git checkout -q other; git status")
    assert done["effects"]["paths"][0] == str(workshop.root / ".git")
    assert not any(".git/" in path for path in done["effects"]["paths"])
    (workshop.root / ".git/hooks/post-checkout").chmod(0o755)
    await workshop.undo(done["undo_id"])
    (workshop.root / ".git/hooks/post-checkout").chmod(0o644)
    assert {**snapshot(workshop.root), ".git/hooks/post-checkout": 0} == {**before, ".git/hooks/post-checkout": 0}
    assert (workshop.root / ".git/HEAD").read_text() == "ref: refs/heads/main\n"
    assert "effects" not in await workshop.run("git status")


async def test_what_cannot_be_taken_back_is_named_with_the_reason(workshop: Workshop) -> None:
    large = workshop.root / "large"
    large.touch()
    os.truncate(large, (16 << 20) + 1)
    heavy = workshop.root / "node_modules/x"
    heavy.mkdir(parents=True)
    for number in range(project_tree.HEAVY_FILES + 1):
        (heavy / str(number)).touch()
    await workshop.is_read()
    done = await workshop.run("echo >> large; rm -r node_modules; echo 2 > src/a.py")
    assert done["effects"]["not_undoable"] == {
        str(large): "it has more than 16 MB",
        str(workshop.root / "node_modules"): "the folder has too many files to be kept",
    }
    await workshop.undo(done["undo_id"])
    assert (workshop.root / "src/a.py").read_text() == "a = 1\n"


async def test_a_helper_that_is_killed_is_replaced_at_the_next_command(workshop: Workshop) -> None:
    await workshop.is_read()
    effects = workshop.host.daemon.effects
    assert effects is not None
    assert effects.helper_pid is not None
    os.kill(effects.helper_pid, signal.SIGKILL)
    done = await workshop.run("echo 2 > src/a.py")
    assert (workshop.root / "src/a.py").read_text() == "2\n"
    assert "undo_id" not in done
    await workshop.is_read()
    done = await workshop.run("echo 3 > src/a.py")
    assert done["effects"]["changed"] == 1


async def test_a_helper_that_hangs_is_ended_and_commands_go_on(
    workshop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    await workshop.is_read()
    effects = workshop.host.daemon.effects
    assert effects is not None
    pid = effects.helper_pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    done = await workshop.run("echo 2 > src/a.py")
    assert done["effects"]["unknown"] == "the helper process did not answer, and was ended"
    assert effects.helper_pid is None
    assert not Path(f"/proc/{pid}").exists()
    # One wait, of a tenth of a second.
    assert (_hung(caplog)["state"], _hung(caplog)["waits"], tracker._SILENT_S) == ("T", 1, 0.1)
    assert (await workshop.run("echo 3 > src/a.py"))["effects"] == {
        "unknown": "the helper process did not answer before"
    }


async def test_a_helper_that_computes_without_a_word_is_ended(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    # For a name of many letters, this expression takes longer than anybody waits.
    endless = [[("(a+)+$", True), ("project/(a+)+$", True), (".*/(a+)+$", True)]]
    following = tracker.ChangeTracker(tmp_path / "effects", Journal(tmp_path / "journal"), denied=lambda: endless)
    try:
        drop = await following.begin(root, "first")
        following.drop(drop)
        await eventually(lambda: (known := following.follows(root)) is not None and known.is_ready)
        watch = await following.begin(root, "touch")
        (root / ("a" * 60 + "!")).touch()
        seen = await following.end(watch)
        assert seen.effects is not None
        assert seen.effects.unknown == "the helper process did not answer, and was ended"
        assert following.helper_pid is None
        # It was measured in its own processor time: a busy machine ends no helper that would have answered.
        assert _hung(caplog)["computed_s"] >= tracker._MOST_COMPUTING_S
    finally:
        following.close()


async def test_a_helper_with_much_to_do_says_that_it_is_at_work(workshop: Workshop) -> None:
    await workshop.is_read()
    done = await workshop.run("for i in $(seq 3000); do echo $i > src/f$i; done")
    assert done["effects"]["created"] == 3_000
    effects = workshop.host.daemon.effects
    assert effects is not None
    assert effects._words > 0


def _hung(caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    found: list[dict[str, Any]] = [vars(each)["data"] for each in caplog.records if each.msg == "effects.helper_hung"]
    return found[0]


async def test_the_setting_turns_it_off(workshop: Workshop, tmp_path: Path) -> None:
    async with shell_host(tmp_path / "other", command_undo=False) as host:
        assert host.daemon.effects is None
        done = await host.call("shell_exec", command="echo 2 > src/a.py", cwd=str(workshop.root))
        assert "effects" not in done


def test_the_project_is_the_nearest_repository_and_never_what_belongs_to_all(tmp_path: Path) -> None:
    inner = tmp_path / "one/two/three"
    inner.mkdir(parents=True)
    assert project_root(inner) == inner
    (tmp_path / "one/.git").write_text("gitdir: elsewhere\n")
    assert project_root(inner) == tmp_path / "one"
    (tmp_path / "link").symlink_to(inner)
    assert project_root(tmp_path / "link") == tmp_path / "one"
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    (home / ".git").mkdir()
    assert project_root(home, home) is None
    assert project_root(tmp_path, home) is None
    assert project_root(home / "work", home) == home / "work"
    assert project_root(tmp_path / "absent", home) is None
    for folder in ("/", "/tmp", "/etc", "/usr/lib", "/proc/self", "/var", "/home"):
        assert project_root(Path(folder), home) is None, folder


def test_a_private_folder_holds_what_the_helper_writes(tmp_path: Path) -> None:
    from tools.effects.pack import Pack

    pack = Pack(str(tmp_path))
    place = pack.append(b"secret")
    assert pack.read(place, 6) == b"secret"
    # The file has no name that another program could open.
    assert list(tmp_path.iterdir()) == []
    assert stat.S_IMODE(os.fstat(next(iter(pack._files.values()))).st_mode) == 0o600
    pack.close()


async def test_the_command_line_lists_commands_and_walks_back_over_them(workshop: Workshop, tmp_path: Path) -> None:
    await workshop.is_read()
    await workshop.run("sed -i s/1/2/ src/*.py")
    await workshop.run("sed -i s/2/3/ src/a.py; rm src/b.py")
    listed = command(tmp_path, "undo", MCP_AGENT_STATE_DIR=str(tmp_path / "state"))
    lines = listed.stdout.splitlines()
    assert f"changed 1 file, deleted 1 in {workshop.root}: sed -i s/2/3/ src/a.py; rm src/b.py" in lines[0]
    assert f"changed 3 files in {workshop.root}: sed -i s/1/2/ src/*.py" in lines[1]
    undone = command(tmp_path, "undo", "--last", "2", MCP_AGENT_STATE_DIR=str(tmp_path / "state"))
    assert undone.returncode == 0, undone.stderr
    assert "~ src/a.py\n+ src/b.py\n" in undone.stdout
    texts = {path.name: path.read_text() for path in (workshop.root / "src").iterdir()}
    assert texts == {f"{name}.py": f"{name} = 1\n" for name in "abc"}


async def test_a_wrapped_program_says_it_too(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    wrap = {"id": "mover", "wrap": {"id": "mv", "command": "mv"}}
    wrapped = {"version": 1, "activeProfile": "mine", "profiles": [{"id": "mine", "categories": [wrap]}]}
    (tmp_path / "tools.json").write_text(json.dumps(wrapped))
    (root / "one").write_text("1\n")
    async with shell_host(tmp_path, command_undo=True) as host:
        workshop = Workshop(host, root)
        await workshop.is_read()
        done = await host.call("mv", args=["one", "two"], cwd=str(root))
        assert done["effects"]["paths"] == [str(root / "two"), str(root / "one")]
        await workshop.undo(done["undo_id"])
        assert sorted(os.listdir(root)) == [".git", "one"]


async def test_a_helper_that_is_idle_is_ended(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "_IDLE_S", 0.3)
    await workshop.run("true")
    followed = workshop.host.daemon.effects
    assert followed is not None
    pid = followed.helper_pid
    assert pid is not None
    await eventually(lambda: followed.helper_pid is None)
    assert not Path(f"/proc/{pid}").exists()
