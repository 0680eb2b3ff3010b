from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from mcp_agent.storage.artifact_store import Artifact, ArtifactStore, Quotas
from tests.support.daemon import running
from tests.support.waiting import eventually
from tools.kit.errors import NotFound

_KILLS = 100 if "MCP_AGENT_TEST_LONG" in os.environ else 10
# Opens the store and closes it, as fast as it can.
_OPENER = """
import sys
from pathlib import Path
from mcp_agent.storage.artifact_store import ArtifactStore
while True:
    store = ArtifactStore(Path(sys.argv[1]))
    store.find(sys.argv[2])
    store.close()
"""
# Keeps artifacts as fast as it can, and says each reference as soon as it has it.
_WRITER = """
import sys
from pathlib import Path
from mcp_agent.storage.artifact_store import ArtifactStore
store = ArtifactStore(Path(sys.argv[1]))
number = 0
while True:
    number += 1
    text = f"{number} " * 20_000
    print(store.of("me").keep("shell", [text.encode()[:50_000], text.encode()[50_000:]]), number, flush=True)
"""


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "artifacts")


def _kept(store: ArtifactStore, owner: str, text: str) -> str:
    return store.of(owner).keep("shell", [text.encode()])


def test_an_artifact_is_its_owners_and_nobody_elses(store: ArtifactStore) -> None:
    reference = _kept(store, "one", "text")
    assert store.of("one").path_of(reference).read_text() == "text"
    with pytest.raises(NotFound, match="of yours"):
        store.of("two").path_of(reference)
    assert [artifact.reference for artifact in store.newest("one")] == [reference]
    assert store.newest("two") == []


@pytest.mark.parametrize(
    "reference", ["ax://shell/../token", "ax://shell/", "ax://SHELL/00", "ax://shell/zz", "ax://a/b/c", "shell"]
)
def test_a_reference_that_is_none_leads_nowhere(store: ArtifactStore, reference: str) -> None:
    _kept(store, "one", "text")
    with pytest.raises(NotFound):
        store.of("one").path_of(reference)


def test_a_file_is_kept_as_it_is_and_outlives_its_old_name(store: ArtifactStore, tmp_path: Path) -> None:
    file = tmp_path / "output"
    file.write_text("text")
    reference = store.of("one").keep_file("shell", file)
    assert store.of("one").path_of(reference).samefile(file)
    file.unlink()
    assert store.of("one").path_of(reference).read_text() == "text"


def test_a_file_on_another_disk_is_copied(store: ArtifactStore) -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == Path.cwd().stat().st_dev:
        pytest.skip("there is no second file system to keep a file of")
    with tempfile.NamedTemporaryFile(dir=shared) as file:
        file.write(b"text")
        file.flush()
        reference = store.of("one").keep_file("shell", Path(file.name))
    assert store.of("one").path_of(reference).read_text() == "text"


def test_a_file_that_is_too_large_is_not_kept(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "artifacts", Quotas(caller_bytes=3))
    file = tmp_path / "output"
    file.write_text("text")
    with pytest.raises(OSError, match="larger than the 3 bytes"):
        store.of("one").keep_file("shell", file)
    assert store.newest() == []


def test_what_a_power_cut_has_shortened_is_gone(store: ArtifactStore) -> None:
    reference = _kept(store, "one", "text")
    path = store.of("one").path_of(reference)
    os.truncate(path, 2)
    with pytest.raises(NotFound):
        store.of("one").path_of(reference)
    store.recover()
    assert store.newest() == []
    assert not path.exists()


def test_files_are_for_their_owner_alone(store: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir(mode=0o700)
    # As an earlier version made it.
    (tmp_path / "artifacts" / "index.sqlite").touch(mode=0o644)
    _kept(store, "one", "text")
    store.keep_text("one", "text")
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "artifacts").rglob("*")}
    assert {"index.sqlite", "index.sqlite-wal", "index.sqlite-shm"} < found.keys()
    assert set(found.values()) == {0o600, 0o700}


def test_artifacts_outlive_the_process_that_made_them(store: ArtifactStore, tmp_path: Path) -> None:
    reference = _kept(store, "one", "text")
    store.close()
    assert ArtifactStore(tmp_path / "artifacts").of("one").path_of(reference).read_text() == "text"


def test_a_caller_over_its_quota_loses_its_oldest_and_others_nothing(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "artifacts", Quotas(total_bytes=10_000, caller_bytes=1_000))
    other = _kept(store, "two", "x" * 900)
    mine = [_kept(store, "one", "x" * 400) for _ in range(4)]
    assert [artifact.reference for artifact in store.newest("one")] == mine[:1:-1]
    assert store.of("two").path_of(other).exists()
    with pytest.raises(OSError, match="larger than"):
        _kept(store, "one", "x" * 1_001)
    assert len(list((tmp_path / "artifacts").glob("??/*"))) == 3


def test_a_huge_output_does_not_cost_a_caller_its_other_artifacts(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "artifacts", Quotas(caller_bytes=10_000))
    small = [_kept(store, "one", "x" * 300) for _ in range(10)]
    huge = [_kept(store, "one", "x" * 7_000) for _ in range(3)]
    assert [artifact.reference for artifact in store.newest("one")] == [huge[-1], *reversed(small)]
    with pytest.raises(OSError, match="larger than the 7000 bytes that the caller's other artifacts leave"):
        _kept(store, "one", "x" * 7_001)
    assert len(store.newest("one")) == 11
    # Small ones need room: the huge one is beyond its share, and goes before any of them.
    more = _kept(store, "one", "x" * 300)
    assert [artifact.reference for artifact in store.newest("one")] == [more, *reversed(small)]


def test_large_artifacts_within_their_share_go_by_age(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "artifacts", Quotas(caller_bytes=10_000))
    old = _kept(store, "one", "x" * 400)
    large = _kept(store, "one", "x" * 4_000)
    for _ in range(15):
        _kept(store, "one", "x" * 400)
    assert old not in [artifact.reference for artifact in store.newest("one")]
    assert large in [artifact.reference for artifact in store.newest("one")]


def test_all_together_stay_within_the_total(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "artifacts", Quotas(total_bytes=1_000, caller_bytes=1_000))
    for number in range(8):
        _kept(store, f"caller {number}", "x" * 300)
    assert [artifact.owner for artifact in store.newest()] == ["caller 7", "caller 6", "caller 5"]


def test_an_artifact_goes_when_it_is_old(tmp_path: Path) -> None:
    reference = _kept(ArtifactStore(tmp_path / "artifacts"), "one", "text")
    aged = ArtifactStore(tmp_path / "artifacts", Quotas(age_s=0.0))
    assert aged.find(reference) is None
    _kept(aged, "two", "new")
    assert [artifact.owner for artifact in aged.newest()] == []


def test_a_store_opens_while_another_closes(tmp_path: Path) -> None:
    """SQLite removes the log of an index when its last connection closes."""
    folder = tmp_path / "artifacts"
    reference = _kept(ArtifactStore(folder), "one", "text")
    with subprocess.Popen([sys.executable, "-c", _OPENER, str(folder), reference]) as other:
        try:
            for _ in range(500):
                store = ArtifactStore(folder)
                assert store.find(reference) is not None
                store.close()
        finally:
            other.kill()


def test_no_artifact_is_lost_when_the_writer_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    told: dict[str, int] = {}
    for kill in range(_KILLS):
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(folder)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for _ in range(1 + kill % 3):
                reference, number = writer.stdout.readline().split()
                told[reference] = int(number)
            writer.send_signal(signal.SIGKILL)
            for line in writer.stdout:
                if line.endswith("\n"):
                    reference, number = line.split()
                    told[reference] = int(number)
    store = ArtifactStore(folder)
    for path in folder.glob("??/*"):
        os.utime(path, (time.time() - 120, time.time() - 120))
    store.recover()
    for reference, count in told.items():
        assert store.of("me").path_of(reference).read_text() == f"{count} " * 20_000
    files = {path.name for path in folder.glob("??/*")}
    assert files == {artifact.id for artifact in store.newest(limit=10**6)}


def test_a_broken_index_is_an_error_of_the_disk_and_no_crash(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    folder.mkdir()
    (folder / "index.sqlite").write_bytes(b"no database at all, just text" * 100)
    with pytest.raises(OSError, match="cannot be used"):
        _kept(ArtifactStore(folder), "one", "text")
    assert sqlite3.sqlite_version


def test_an_index_that_breaks_while_it_is_open_is_an_error_of_the_disk(store: ArtifactStore, tmp_path: Path) -> None:
    _kept(store, "me", "before")
    index = sqlite3.connect(tmp_path / "artifacts" / "index.sqlite")
    index.execute("drop table artifacts")
    index.commit()
    index.close()
    files = sorted((tmp_path / "artifacts").glob("??/*"))
    with pytest.raises(OSError, match="the index of artifacts cannot be used"):
        _kept(store, "me", "after")
    assert sorted((tmp_path / "artifacts").glob("??/*")) == files


def test_two_processes_share_a_store(store: ArtifactStore, tmp_path: Path) -> None:
    _kept(store, "one", "first")
    other = ArtifactStore(tmp_path / "artifacts")
    reference = _kept(other, "one", "second")
    found = store.find(reference, "one")
    assert isinstance(found, Artifact)
    assert found.size == 6


def test_the_same_text_of_the_same_owner_is_kept_once(store: ArtifactStore, tmp_path: Path) -> None:
    half = "text \ud800 with half a character"
    first, again, other = store.keep_text("me", half), store.keep_text("me", half), store.keep_text("you", half)
    assert (first == again, first == other, len(list(tmp_path.glob("*/pr/*")))) == (True, False, 2)
    assert (store.find_text("me", first), store.find_text("you", first)) == (half, None)
    # Another process, or the next one.
    assert ArtifactStore(tmp_path / "artifacts").find_text("me", first) == half


def test_a_pruned_text_is_no_result(store: ArtifactStore) -> None:
    prune_id = store.keep_text("me", "text")
    assert (store.newest(), store.used_bytes(), store.find(f"ax://pruned/{prune_id}", "me")) == ([], 0, None)


def test_pruned_texts_make_room_among_themselves_and_never_push_out_a_result(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, Quotas(10_000, 10_000, 60.0), Quotas(100_000, 50_000, 60.0))
    result = _kept(store, "me", "x" * 9_000)
    ids = [store.keep_text("me", f"{number:04} " * 400) for number in range(100)]
    kept = [prune_id for prune_id in ids if store.find_text("me", prune_id) is not None]
    assert kept == ids[-25:]
    assert len(list(tmp_path.glob("pr/*"))) == 25
    assert store.of("me").path_of(result).exists()


def test_a_text_that_is_kept_again_is_as_good_as_new(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, pruned=Quotas(100_000, 3_000, 60.0))
    first, second = store.keep_text("me", "1" * 1_000), store.keep_text("me", "2" * 1_000)
    store.keep_text("me", "1" * 1_000)
    store.keep_text("me", "3" * 2_000)
    assert (store.find_text("me", first) is None, store.find_text("me", second) is None) == (False, True)


def test_each_kind_has_its_age_and_is_swept_when_it_is_over(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, Quotas(age_s=1_000.0), Quotas(age_s=60.0))
    prune_id, result = store.keep_text("me", "text"), _kept(store, "me", "text")
    assert 59 < store.sweep() <= 60
    index = sqlite3.connect(tmp_path / "index.sqlite")
    index.execute("update artifacts set created = created - 100")
    index.commit()
    index.close()
    assert store.find_text("me", prune_id) is None
    assert list(tmp_path.glob("pr/*")) != []
    assert store.sweep() == 60
    assert list(tmp_path.glob("pr/*")) == []
    assert store.of("me").path_of(result).exists()


async def test_what_is_too_old_leaves_the_disk_by_itself(home: Path) -> None:
    with running(home, extra={"MCP_PRUNER_PRUNE_ID_TTL_S": "1"}) as daemon:
        (home / "code.py").write_text(
            "\n".join(f"def step_{n}(pool):\n    return pool.take({n})\n" for n in range(200))
        )
        arguments = {"path": "code.py", "context_focus_question": "where is step_7?"}
        read = await daemon.rpc("tools/call", name="fs_read", arguments=arguments)
        assert read["result"]["structuredContent"]["pruning"]["prune_id"].startswith("prn_")
        folder = home / ".local/state/mcp-agent/artifacts/pr"
        await eventually(lambda: list(folder.iterdir()), lambda left: not left)


@pytest.mark.parametrize("prune_id", ["", "prn_", "../token", "prn_../../../x", "prn_" + "a" * 16 + "\n"])
def test_an_id_is_never_a_path(store: ArtifactStore, tmp_path: Path, prune_id: str) -> None:
    (tmp_path / "token").write_text("secret")
    store.keep_text("me", "text")
    assert store.find_text("me", prune_id) is None
