"""Notebooks that a person runs in Open WebUI, with real kernels."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.types import Message

from mcp_agent.calls.call import OPEN_TERMINAL, Caller
from mcp_agent.open_terminal import notebooks
from mcp_agent.open_terminal.files import Files
from mcp_agent.open_terminal.kernels import Kernel, KernelEnded, interpreters
from mcp_agent.open_terminal.requests import TerminalRefusal, TerminalRequest
from mcp_agent.security.auth_tokens import Principal
from mcp_agent.security.open_streams import OpenStreams
from registry.gate import Access
from tests.support.daemon import Daemon, running
from tests.support.open_terminal import get, run_tool, terminal
from tests.support.shell_host import ShellHost
from tests.support.waiting import PATIENCE_S, eventually

_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_STARTS_S = 3 * PATIENCE_S


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("home")) as started:
        yield started


class Opened:
    """A notebook with its kernel, as the page of Open WebUI uses it."""

    def __init__(self, page: httpx2.AsyncClient, path: Path, notebook_id: str) -> None:
        self.page, self.path, self.id = page, path, notebook_id

    async def run(self, index: int, source: str) -> Any:
        body = {"cell_index": index, "source": source}
        answer = await self.page.post(f"/notebooks/{self.id}/execute", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def cells(self) -> Any:
        return json.loads(self.path.read_text("utf-8"))["cells"]


@contextlib.asynccontextmanager
async def opened(
    daemon: Daemon, name: str, *sources: str, folder: Path | None = None, **who: Any
) -> AsyncIterator[Opened]:
    path = _write(folder or daemon.home, name, *sources)
    # The page names no chat for a notebook.
    async with terminal(daemon, chat="", **who) as page:
        page.timeout = _STARTS_S
        answer = await page.post("/notebooks", json={"path": str(path)})
        assert answer.status_code == 200, answer.text
        assert (answer.json()["kernel"], answer.json()["status"]) == ("python3", "ready")
        notebook = Opened(page, path, answer.json()["id"])
        try:
            yield notebook
        finally:
            with contextlib.suppress(httpx2.TransportError):
                await page.delete(f"/notebooks/{notebook.id}")


async def test_a_cell_runs_and_what_it_gives_is_in_the_file(machine: Daemon) -> None:
    async with opened(machine, "first.ipynb", "x = 40", "x + 2") as notebook:
        assert (await get(notebook.page, "/api/config"))["features"]["notebooks"] is True
        printed = await notebook.run(1, "x = 40\nprint('né', x)\n!echo from the shell")
        outputs = [{"output_type": "stream", "name": "stdout", "text": "né 40\nfrom the shell\r\n"}]
        assert printed == {"status": "ok", "execution_count": 1, "outputs": outputs}
        shown = await notebook.run(2, "x + 2")
        result = {"output_type": "execute_result", "data": {"text/plain": "42"}, "metadata": {}, "execution_count": 2}
        assert shown == {"status": "ok", "execution_count": 2, "outputs": [result]}
        failed = await notebook.run(2, "x / 0")
        assert (failed["status"], failed["outputs"][0]["ename"]) == ("error", "ZeroDivisionError")
        assert (await get(notebook.page, f"/notebooks/{notebook.id}"))["status"] == "ready"
        # A kernel listens for itself.
        assert (await get(notebook.page, "/ports"))["ports"] == []
        title, first, second = notebook.cells()
        assert title == {"cell_type": "markdown", "metadata": {}, "source": ["# Title"]}
        assert first["source"] == ["x = 40\n", "print('né', x)\n", "!echo from the shell"]
        assert first["outputs"][0]["text"] == ["né 40\n", "from the shell\r\n"]
        assert (second["execution_count"], second["source"]) == (3, ["x / 0"])
        # As Jupyter writes it: nothing else of the file has changed.
        assert notebook.path.read_text("utf-8").startswith('{\n "cells": [\n  {\n   "cell_type": "markdown",')
    changes = machine.cli("undo", "--list").stdout
    assert changes.count("first.ipynb") == 3, changes


async def test_pictures_are_shown_and_what_has_no_end_is_cut(machine: Daemon) -> None:
    picture = f"from IPython.display import display\ndisplay({{'image/png': '{_PNG}'}}, raw=True)"
    huge = "display({'image/png': 'x' * 5_000_000, 'text/plain': 'a chart'}, raw=True)"
    endless = "print('first'); print('y' * 3_000_000); print('last')"
    many = "for each in range(400): display(each)"
    async with opened(machine, "large.ipynb", "1") as notebook:
        assert (await notebook.run(1, picture))["outputs"][0]["data"] == {"image/png": _PNG}
        told = {"text/plain": "a chart\n[image/png of 5,000,000 characters is left out]"}
        assert (await notebook.run(1, huge))["outputs"][0]["data"] == told
        text = (await notebook.run(1, endless))["outputs"][0]["text"]
        assert text.startswith("first\nyyy")
        assert text.endswith("yyy\nlast\n")
        assert "characters are left out]" in text
        assert len(text) < 200_000
        cut = (await notebook.run(1, many))["outputs"]
        assert (len(cut), cut[-1]["text"]) == (301, "[100 more outputs are left out]\n")
        asked = await notebook.run(1, "input()")
        assert asked["outputs"][-1]["ename"] == "StdinNotImplementedError"


async def test_the_environment_beside_the_notebook_has_the_kernel(machine: Daemon) -> None:
    folder = machine.home / "own" / "deep"
    folder.mkdir(parents=True)
    python = _environment(machine.home / "own" / ".venv", has_kernel=True)
    async with opened(machine, "own.ipynb", "1", folder=folder) as notebook:
        ran = await notebook.run(1, "import os, sys; print(sys.executable, os.getcwd(), sep='\\n')")
        assert ran["outputs"][0]["text"].split() == [str(python), str(folder)]
        which = await notebook.run(1, "!which python")
        assert which["outputs"][0]["text"].strip() == str(python)


async def test_a_cell_that_others_have_changed_keeps_their_text(machine: Daemon) -> None:
    async with opened(machine, "shared.ipynb", "a = 1", "b = 2", folder=machine.home) as notebook:
        edit = {"type": "replace_first", "pattern": "b = 2", "replacement": "b = 3"}
        patched = await run_tool(notebook.page, "fs_patch", path=str(notebook.path), operations=[edit])
        assert patched.status_code == 200, patched.text
        # Another cell of the file is kept as it is now.
        assert (await notebook.run(1, "print(1)"))["outputs"][0]["text"] == "1\n"
        assert [each["source"] for each in notebook.cells()[1:]] == [["print(1)"], ["b = 3"]]
        ran = await notebook.run(2, "b = 2; print(b)")
        note = f"[this is not in the file: cell 3 of {notebook.path} has changed since you opened it; open it again]\n"
        assert [each["text"] for each in ran["outputs"]] == ["2\n", note]
        assert notebook.cells()[2]["source"] == ["b = 3"]


async def test_a_client_that_leaves_interrupts_its_cell_and_the_state_stays(machine: Daemon) -> None:
    async with opened(machine, "long.ipynb", "1") as notebook:
        mark = machine.home / "runs"
        source = f"import time\nkept = 7\nopen({str(mark)!r}, 'w').close()\ntime.sleep(600)"
        running_cell = asyncio.create_task(notebook.run(1, source))
        await eventually(mark.exists)
        refused = await notebook.page.post(f"/notebooks/{notebook.id}/execute", json={"cell_index": 1, "source": "2"})
        detail = "another cell of this notebook is running"
        assert (refused.status_code, refused.json()["detail"]) == (409, detail)
        running_cell.cancel()

        async def is_free() -> bool:
            return bool((await get(notebook.page, f"/notebooks/{notebook.id}"))["status"] == "ready")

        await eventually(is_free)
        assert (await notebook.run(1, "kept"))["outputs"][0]["data"]["text/plain"] == "7"


async def test_a_kernel_that_ends_says_so_and_shows_what_it_has_printed(machine: Daemon) -> None:
    async with opened(machine, "ends.ipynb", "1") as notebook:
        ended = await notebook.run(1, "import os, sys; print('before', flush=True); sys.stdout.flush(); os._exit(3)")
        assert ended["status"] == "error"
        assert ended["outputs"][-1]["text"] == "[the kernel has ended with exit code 3; press Restart]\n"
        gone = await notebook.page.post(f"/notebooks/{notebook.id}/execute", json={"cell_index": 1, "source": "2"})
        assert (gone.status_code, gone.json()["detail"]) == (404, "this notebook has no kernel any more; press Restart")


async def test_stop_ends_a_cell_that_runs_and_all_that_it_started(machine: Daemon) -> None:
    async with opened(machine, "stop.ipynb", "1") as notebook:
        mark = machine.home / "pids"
        source = (
            "import os, subprocess\nchild = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
            f"open({str(mark)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}\\n')\nchild.wait()"
        )
        running_cell = asyncio.create_task(notebook.run(1, source))
        pids = [int(each) for each in await eventually(lambda: _words(mark))]
        assert (await notebook.page.delete(f"/notebooks/{notebook.id}")).json() == {"status": "stopped"}
        assert (await running_cell)["status"] == "error"
        await eventually(lambda: [each for each in pids if _is_alive(each)], lambda left: not left)


async def test_a_notebook_is_of_one_user_and_what_is_none_is_refused(machine: Daemon) -> None:
    async with opened(machine, "mine.ipynb", "1") as notebook, terminal(machine, user="u-2", chat="") as other:
        body = {"cell_index": 1, "source": "1"}
        assert (await other.post(f"/notebooks/{notebook.id}/execute", json=body)).status_code == 404
        assert (await other.delete(f"/notebooks/{notebook.id}")).status_code == 404
        for index in (0, 2, -1, "1"):
            wrong = {"cell_index": index, "source": "1"}
            assert (await notebook.page.post(f"/notebooks/{notebook.id}/execute", json=wrong)).status_code == 400
    (machine.home / "old.ipynb").write_text('{"worksheets": [], "nbformat": 3}')
    (machine.home / "text.ipynb").write_text("no JSON")
    julia = _write(machine.home, "julia.ipynb", "1", kernel="julia-9", language="julia")
    async with terminal(machine, chat="") as page:
        page.timeout = _STARTS_S
        refusals = {
            "old.ipynb": "is no notebook of format 4",
            "text.ipynb": "is no notebook",
            julia.name: "knows no kernel 'julia-9'",
        }
        for name, expected in refusals.items():
            refused = await page.post("/notebooks", json={"path": name})
            assert (refused.status_code, expected in refused.json()["detail"]) == (400, True), refused.text
        assert (await page.post("/notebooks", json={"path": "none.ipynb"})).status_code == 404


async def test_the_switches_and_the_rules_of_the_shell_hold_for_notebooks(home: Path) -> None:
    rules = {"commands": [{"id": "no-halt", "pattern": "halt", "reason": "the machine stays on"}]}
    document = {"version": 1, "activeProfile": "default", "profiles": [{"id": "default", "deny": rules}]}
    (home / "tools.json").write_text(json.dumps(document))
    with running(home) as daemon:
        other = daemon.cli("token", "create", "other").stdout.splitlines()[1]
        async with opened(daemon, "a.ipynb", "1", token=other) as first, opened(daemon, "b.ipynb", "1") as second:
            pids = [
                int((await each.run(1, "import os; os.getpid()"))["outputs"][0]["data"]["text/plain"])
                for each in (first, second)
            ]
            denied = await second.page.post(
                f"/notebooks/{second.id}/execute", json={"cell_index": 1, "source": "x = 1\n!halt now"}
            )
            assert (denied.status_code, "the machine stays on" in denied.json()["detail"]) == (403, True)
            assert (await asyncio.to_thread(daemon.cli, "token", "revoke", "other")).returncode == 0
            await eventually(lambda: _is_alive(pids[0]), lambda alive: not alive)
            assert _is_alive(pids[1])
            assert (await asyncio.to_thread(daemon.cli, "disable", "shell")).returncode == 0
            await eventually(lambda: _is_alive(pids[1]), lambda alive: not alive)
            refused = await second.page.post("/notebooks", json={"path": str(second.path)})
            assert (refused.status_code, refused.json()["detail"]) == (403, "Tool shell_start_session is disabled")
            assert (await get(second.page, "/api/config"))["features"]["notebooks"] is False
            assert (await asyncio.to_thread(daemon.cli, "enable", "shell")).returncode == 0
        audited = [json.loads(line) for line in daemon.cli("audit", "--json").stdout.splitlines()]
        rules_met = [each.get("rule") for each in audited if each.get("tool") == "shell_send_input"]
        assert rules_met.count("no-halt") == 1
        async with opened(daemon, "c.ipynb", "1") as third:
            pid = int((await third.run(1, "import os; os.getpid()"))["outputs"][0]["data"]["text/plain"])
            daemon.process.terminate()
            assert await asyncio.to_thread(daemon.process.wait, 20) == 0
            assert not _is_alive(pid)


async def test_where_no_python_has_a_kernel_it_is_said_what_makes_one(
    shell: ShellHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = _environment(tmp_path / ".venv", has_kernel=False)
    monkeypatch.setenv("PATH", str(python.parent))
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(TerminalRefusal, match="pip install ipykernel") as refused:
        await Kernel.start(shell.daemon.sessions, "notebook1", tmp_path, "python3", "python")
    assert refused.value.status == 501
    await eventually(shell.processes, lambda left: not left)


def test_an_interpreter_that_anybody_could_have_put_there_is_not_run(tmp_path: Path) -> None:
    python = _environment(tmp_path / ".venv", has_kernel=False)
    (tmp_path / "project").mkdir()
    assert next(interpreters(tmp_path / "project")) == str(python)
    tmp_path.chmod(0o1777)
    assert str(python) not in interpreters(tmp_path / "project")


async def test_a_cell_that_cannot_be_interrupted_ends_its_kernel(
    shell: ShellHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_agent.open_terminal.kernels._INTERRUPT_S", 0.2)
    kernel = await Kernel.start(shell.daemon.sessions, "notebook1", tmp_path, "python3", "python")
    late = await kernel.run("import time\nprint('soon', flush=True)\ntime.sleep(600)", 1.0)
    assert (late["is_late"], late["status"], late["outputs"][-1]["ename"]) == (True, "error", "KeyboardInterrupt")
    stubborn = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(600)"
    with pytest.raises(KernelEnded, match="could not be interrupted"):
        await kernel.run(stubborn, 0.5)
    await eventually(shell.processes, lambda left: not left)


async def test_the_kernel_that_was_not_used_for_the_longest_time_makes_room(
    shell: ShellHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebooks, "MOST_OF_ONE", 1)
    daemon = shell.daemon
    held = notebooks.Notebooks(daemon.sessions, Files(daemon.dispatcher, daemon.gate, tmp_path), lambda person: True)
    ids = []
    for name in ("one.ipynb", "two.ipynb"):
        path = _write(tmp_path, name, "1")
        ids.append((await held.open(_request(path=str(path))))["id"])
    assert held.status(_request(), ids[1])["status"] == "ready"
    with pytest.raises(TerminalRefusal, match="press Restart"):
        held.status(_request(), ids[0])
    # And one that nobody uses is ended.
    monkeypatch.setattr(notebooks, "IDLE_S", 0.0)
    await eventually(shell.processes, lambda left: not left)


def _request(**body: Any) -> TerminalRequest:
    """A request in this process, of a client that stays."""
    sent = [{"type": "http.request", "body": json.dumps(body).encode()}]

    async def receive() -> Message:
        if sent:
            return sent.pop()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    state = {"streams": OpenStreams(), "revocations": 0, "principal": Principal("owner")}
    person = Caller("owner", Access(), OPEN_TERMINAL)
    return TerminalRequest({"type": "http", "state": state}, receive, person, True, {})


def _write(folder: Path, name: str, *sources: str, kernel: str = "python3", language: str = "python") -> Path:
    """A notebook with a title and these cells."""
    title = {"cell_type": "markdown", "metadata": {}, "source": ["# Title"]}
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": [each]}
        for each in sources
    ]
    kernelspec = {"display_name": "-", "language": language, "name": kernel}
    document = {"cells": [title, *cells], "metadata": {"kernelspec": kernelspec}, "nbformat": 4, "nbformat_minor": 5}
    path = folder / name
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def _environment(folder: Path, *, has_kernel: bool) -> Path:
    """The interpreter of a new environment, with the packages of the tests or none."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    if has_kernel:
        (packages,) = folder.glob("lib/python3*/site-packages")
        (packages / "tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"


def _words(path: Path) -> list[str]:
    text = path.read_text() if path.exists() else ""
    return text.split() if text.endswith("\n") else []


def _is_alive(pid: int) -> bool:
    """Whether a process runs. One that nobody has waited for yet does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
