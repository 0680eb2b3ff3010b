"""Many clients at once, each of which knows what it must get: of files, commands, sessions, searches and switches.

A client that gets something else raises. While the disk has a fault, what the daemon says it could not keep is allowed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2

from tests.support.broken_disk import Fault, SmallDisk
from tests.support.daemon import Daemon
from tests.support.event_stream import EventStream, events, text
from tests.support.waiting import PATIENCE_S, eventually

# Of those faults that take nothing away.
_FAULTS: tuple[Fault, ...] = ("full", "read-only", "rights taken")
_STORES = ("state/sessions", "state/journal", "state/artifacts", "state/audit")
_TOLERATED = {"NOT_UNDOABLE", "IO_ERROR"}
_PATCH = {"type": "replace_all", "pattern": "needle", "replacement": "thread"}
_HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
_BOTH = {"Accept": "application/json, text/event-stream"}


class MixedLoad:
    """What the clients know: it survives the daemons that they talk to."""

    def __init__(self, folder: Path, disk: SmallDisk | None, seed: int = 1) -> None:
        self.folder = folder
        self.counts: Counter[str] = Counter()
        # What each file may hold: one text, or two while a change is under way. None: there is no such file.
        self.files: dict[Path, set[str | None]] = {}
        self.artifacts: list[tuple[str, str]] = []
        self._disk = disk
        self._random = random.Random(seed)
        # Odd while the disk has a fault.
        self._fault_number = 0
        self._may_work = asyncio.Event()
        self._may_work.set()
        self._at_work = 0
        (folder / "code.py").write_text("".join(f"def f{n}():\n    return {n}  # needle\n\n" for n in range(400)))

    async def run(self, daemon: Daemon, seconds: float, *, is_killed: bool) -> None:
        """Load the daemon for so long. If it is killed then, all that is under way breaks off."""
        clients: list[Callable[[Daemon, httpx2.AsyncClient], Awaitable[None]]] = [
            *[self._change_file] * 2,
            self._execute,
            self._execute,
            self._follow_session,
            self._stop_session,
            self._search,
            self._connect,
            self._listen_without_reading,
            self._switch,
        ]
        if self._disk is not None:
            clients.append(self._break_disk)
        stop = asyncio.Event()
        tasks = [asyncio.ensure_future(self._repeat(number, each, daemon, stop)) for number, each in enumerate(clients)]
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        if is_killed and not done:
            daemon.process.kill()
        stop.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        broken = [each for each in answers if isinstance(each, BaseException)]
        if is_killed:
            broken = [each for each in broken if not isinstance(each, httpx2.TransportError | EOFError)]
        if broken:
            raise broken[0]

    @contextlib.asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """No client has a request under way in the block."""
        self._may_work.clear()
        try:
            await eventually(lambda: self._at_work == 0, within_s=3 * PATIENCE_S)
            yield
        finally:
            self._may_work.set()

    def check_files(self) -> None:
        """Every file is what its last change has left; after a kill, what it was before or after the one under way."""
        for path, allowed in self.files.items():
            found = path.read_text() if path.exists() else None
            assert found in allowed, (path, found, allowed)
            self.files[path] = {found}
        assert [path.name for path in self.folder.iterdir() if path.name.startswith(".")] == []

    async def check_artifacts(self, daemon: Daemon) -> None:
        """The last artifacts are there, whole."""
        async with daemon.http() as http:
            for reference, beginning in self.artifacts[-5:]:
                read = await self._call(http, "artifact_read", ref=reference, limit=len(beginning))
                assert read["content"] == beginning, read

    async def _repeat(
        self,
        number: int,
        client: Callable[[Daemon, httpx2.AsyncClient], Awaitable[None]],
        daemon: Daemon,
        stop: asyncio.Event,
    ) -> None:
        async with daemon.http() as http:
            http.headers["X-Session-Id"] = str(number)
            while not stop.is_set():
                await self._may_work.wait()
                self._at_work += 1
                try:
                    async with asyncio.timeout(3 * PATIENCE_S):
                        await client(daemon, http)
                except TimeoutError as error:
                    raise AssertionError(f"{client.__name__} waited too long") from error
                finally:
                    self._at_work -= 1
                self.counts[client.__name__] += 1
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), self._random.uniform(0.0, 0.05))

    async def _call(self, http: httpx2.AsyncClient, tool: str, **arguments: Any) -> dict[str, Any]:
        message = {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        answer = (await http.post("/rpc", json={"jsonrpc": "2.0", "id": 1, **message})).json()
        result: dict[str, Any] = answer["result"]["structuredContent"]
        assert result.get("error", {}).get("code") != "INTERNAL_ERROR", result
        return result

    @contextlib.contextmanager
    def _unless_faulty(self, before: int) -> Iterator[None]:
        """An assertion in the block counts only if the disk has been well since its fault number was `before`."""
        try:
            yield
        except (AssertionError, KeyError):
            if before % 2 == 0 and before == self._fault_number:
                raise
            self.counts["not kept in a fault"] += 1

    async def _change_file(self, daemon: Daemon, http: httpx2.AsyncClient) -> None:
        """Change a file, read it, and now and then take the change back."""
        path = self.folder / f"file-{http.headers['X-Session-Id']}"
        (old,) = self.files.setdefault(path, {None})
        before = self._fault_number
        line = f"needle {self._random.random()}\n"
        ways: dict[str, tuple[str | None, dict[str, Any]]] = {
            "fs_write": (line * 20, {"content": line * 20, "mode": "overwrite"})
        }
        if old is not None:
            ways["fs_write append"] = (old + line, {"content": line, "mode": "append"})
            ways["fs_delete"] = (None, {})
            if "needle" in old:
                ways["fs_patch"] = (old.replace("needle", "thread"), {"operations": [_PATCH]})
        way = self._random.choice(list(ways))
        new, arguments = ways[way]
        self.files[path] = {old, new}
        changed = await self._call(http, way.split()[0], path=str(path), **arguments)
        if "error" in changed:
            assert changed["error"]["code"] in _TOLERATED, (way, changed)
            new = old
        self.files[path] = {new}
        if new is not None:
            read = await self._call(http, "fs_read", path=str(path))
            assert read["content"] == new
        with self._unless_faulty(before):
            if "error" not in changed and self._random.random() < 0.3:
                undoing = {"from": f"undo://{changed['undo_id']}", "to": str(path)}
                self.files[path] = {old, new}
                undone = await self._call(http, "fs_move", **undoing)
                found = path.read_text() if path.exists() else None
                self.files[path] = {found}
                assert "error" not in undone, undone
                assert found == old

    async def _execute(self, daemon: Daemon, http: httpx2.AsyncClient) -> None:
        number, before = self._random.randrange(1, 30_000), self._fault_number
        done = await self._call(http, "shell_exec", command=f"seq 1 {number}", max_output_bytes=100_000)
        whole = "".join(f"{each}\n" for each in range(1, number + 1))
        assert done["exit_code"] == 0
        if not done.get("truncated"):
            assert done["stdout"] == whole
            return
        with self._unless_faulty(before):
            self.artifacts.append((done["artifactRef"], whole[:1_000]))

    async def _follow_session(self, daemon: Daemon, http: httpx2.AsyncClient) -> None:
        """Every byte of a session arrives, in order, and its exit."""
        number, before = self._random.randrange(1, 20_000), self._fault_number
        started = await self._call(http, "shell_start_session", command=f"seq 1 {number}; exit 3")
        if "error" in started:
            assert started["error"]["code"] == "SESSION_LIMIT", started
            return
        with self._unless_faulty(before):
            async with events(daemon, f"?session_id={started['session_id']}&since=0") as stream:
                heard = await stream.rest()
            assert heard[-1].data.get("exit_code") == 3, heard[-1]
            assert text(heard) == "".join(f"{each}\n" for each in range(1, number + 1))

    async def _stop_session(self, daemon: Daemon, http: httpx2.AsyncClient) -> None:
        command = "setsid sleep 300 & (sleep 300 &) ; echo ready; exec cat"
        started = await self._call(http, "shell_start_session", command=command)
        if "error" in started:
            assert started["error"]["code"] == "SESSION_LIMIT", started
            return
        sent = {"session_id": started["session_id"], "input": "one\n", "until": "one", "wait_ms": 20_000}
        found = await self._call(http, "shell_send_input", **sent)
        assert found.get("matched") is True, found
        stopped = await self._call(http, "shell_stop_session", session_id=started["session_id"])
        assert stopped["stopped"] is True, stopped

    async def _search(self, daemon: Daemon, http: httpx2.AsyncClient) -> None:
        base = str(self.folder)
        found = await self._call(http, "fs_grep", base=base, pattern="return 77 ")
        assert [match["line"] for match in found["matches"]] == [233], found
        assert f"{base}/code.py" in str(await self._call(http, "fs_search", base=base, glob="*.py"))
        assert "code.py" in str(await self._call(http, "fs_list", path=base))
        question = {"context_focus_question": "what does f77 return?"}
        read = await self._call(http, "fs_read", path=f"{base}/code.py", **question)
        assert "return 77 " in read["content"]

    async def _connect(self, daemon: Daemon, http: httpx2.AsyncClient) -> None:
        """An MCP session, which half of the clients end and the others forget."""
        first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _HANDSHAKE}
        answer = await http.post("/mcp", json=first, headers=_BOTH)
        assert answer.status_code == 200, answer.text
        named = {**_BOTH, "Mcp-Session-Id": answer.headers["mcp-session-id"]}
        listed = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, headers=named)
        assert '"fs_read"' in listed.text
        if self._random.random() < 0.5:
            assert (await http.delete("/mcp", headers=named)).status_code in (200, 204)
        assert (await http.get("/health", headers={"Authorization": "Bearer wrong-token"})).status_code == 401

    async def _listen_without_reading(self, daemon: Daemon, http: httpx2.AsyncClient) -> None:
        async with http.stream("GET", "/events") as response:
            assert response.status_code == 200
            await EventStream(response).response.aiter_lines().__anext__()
            await asyncio.sleep(self._random.uniform(0.0, 1.0))

    async def _switch(self, daemon: Daemon, http: httpx2.AsyncClient) -> None:
        """A switch holds from the answer on."""
        with self._unless_faulty(self._fault_number):
            for is_on in (False, True):
                switched = await http.post("/api/switch", json={"target": "health", "enabled": is_on})
                assert switched.status_code == 200, switched.text
                answer = await self._call(http, "health")
                assert ("error" not in answer) == is_on, answer

    async def _break_disk(self, daemon: Daemon, http: httpx2.AsyncClient) -> None:
        assert self._disk is not None, "without a disk this client is not started"
        store, fault = self._random.choice(_STORES), self._random.choice(_FAULTS)
        self._fault_number += 1
        try:
            with self._disk.fault(store, fault):
                await asyncio.sleep(self._random.uniform(0.1, 0.5))
        finally:
            self._fault_number += 1
        await asyncio.sleep(self._random.uniform(0.5, 2.0))
