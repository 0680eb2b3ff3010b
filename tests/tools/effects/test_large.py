"""Large files, and programs that format or install a whole project: in `make test-long`."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from tests.support import cache, node
from tests.tools.effects.conftest import Workshop
from tests.tools.effects.snapshots import differences, snapshot

pytestmark = pytest.mark.skipif(not os.environ.get("MCP_AGENT_TEST_LONG"), reason="long: MCP_AGENT_TEST_LONG=1")

_GB = 1 << 30
_NODE = shlex.quote(node.NODE)
_NPM = f"{_NODE} {shlex.quote(str(Path(node.NODE).parents[1] / 'lib/node_modules/npm/bin/npm-cli.js'))}"


async def _is_taken_back(workshop: Workshop, command: str) -> None:
    before = snapshot(workshop.root)
    done = await workshop.run(command, timeout_seconds=300)
    assert done["exit_code"] == 0, done
    assert "not_undoable" not in done["effects"], done
    assert "error" not in await workshop.undo(done["undo_id"])
    assert snapshot(workshop.root) == before, differences(before, snapshot(workshop.root))


@pytest.mark.parametrize("kind", ["sparse", "real"])
async def test_a_file_of_a_gigabyte_is_told_moved_back_and_never_copied(workshop: Workshop, kind: str) -> None:
    large = workshop.root / "large"
    with large.open("wb") as file:
        if kind == "sparse":
            file.truncate(_GB)
        else:
            for _ in range(_GB >> 20):
                file.write(os.urandom(1 << 20))
    await workshop.is_read()
    inode = large.stat().st_ino
    moved = await workshop.run("mv large elsewhere; echo 2 > src/a.py")
    assert "not_undoable" not in moved["effects"]
    undone = await workshop.undo(moved["undo_id"])
    assert "error" not in undone, undone
    assert (large.stat().st_ino, large.stat().st_size) == (inode, _GB)
    changed = await workshop.run("echo >> large; echo 2 > src/b.py")
    assert changed["effects"]["not_undoable"] == {str(large): "it has more than 16 MB"}
    undone = await workshop.undo(changed["undo_id"])
    assert "error" not in undone, undone
    assert (workshop.root / "src/b.py").read_text() == "b = 1\n"
    made = await workshop.run("cp --sparse=always large copy")
    assert made["effects"]["created"] == 1
    await workshop.run("rm large")
    kept = sum(each.stat().st_blocks * 512 for each in (workshop.host.folder / "state").rglob("*") if each.is_file())
    assert kept < 16 << 20


async def test_what_npm_ci_and_prettier_did_is_taken_back(workshop: Workshop, tmp_path: Path) -> None:
    packages = {"name": "small", "version": "1.0.0", "private": True, "dependencies": {"prettier": "3.6.2"}}
    (workshop.root / "package.json").write_text(json.dumps(packages))
    (workshop.root / "src/x.js").write_text("const a = {b:1 ,\n c:[1,2,3]}\n")
    locked = await workshop.run(f"{_NPM} install --package-lock-only --no-audit --no-fund", timeout_seconds=300)
    if locked["exit_code"]:
        pytest.skip(f"npm reaches no registry: {locked['stderr'][-300:]}")
    await workshop.is_read()
    await _is_taken_back(workshop, f"{_NPM} ci --no-audit --no-fund --ignore-scripts")
    installed = await workshop.run(f"{_NPM} ci --no-audit --no-fund --ignore-scripts", timeout_seconds=300)
    assert installed["exit_code"] == 0
    await workshop.is_read()
    await _is_taken_back(workshop, f"{_NODE} node_modules/prettier/bin/prettier.cjs --write src package.json")
    await _is_taken_back(workshop, "rm -rf node_modules")


async def test_what_a_formatter_of_python_did_is_taken_back(workshop: Workshop) -> None:
    black = cache.python("black==25.1.0")
    for number in range(40):
        text = f"def  f( a,b ):\n  return {{ 'a':a,'b' : b, 'n':{number}}}\n"
        (workshop.root / "src" / f"m{number}.py").write_text(text)
    await workshop.is_read()
    await _is_taken_back(workshop, f"{shlex.quote(black)} -m black -q src")
