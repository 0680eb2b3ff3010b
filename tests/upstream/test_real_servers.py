"""Real servers of others, mounted: Playwright's with the system's Chromium, the reference servers, and ourselves."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.calls.call import Call, Caller, Success
from mcp_agent.resources.mounted_resources import MountedResources
from registry.gate import Access
from tests.support import node, programs
from tests.support.daemon import COMMAND, running
from tests.support.shell_host import ShellHost
from tests.support.waiting import eventually
from tests.upstream.mounting import mounted, names, send
from tools.context import ToolContext
from tools.files.paths import OpenPaths

# A loaded machine starts a browser slowly.
_PATIENCE_S = 90.0
_PAGE = """<title>Fruit</title><h1>Fruit store</h1>
<button onclick="document.getElementById('order').textContent = 'You have ordered 3 pears.'">Order</button>
<p id="order">Nothing is in the basket.</p>
"""


def script(path: Path, *arguments: str) -> dict[str, Any]:
    return {"command": node.NODE, "args": [str(path), *arguments]}


def browser() -> dict[str, Any]:
    chromium = shutil.which("chromium")
    assert chromium is not None, "`make system` installs it"
    flags = ("--headless", "--no-sandbox", "--isolated", "--executable-path", chromium)
    return script(programs.browser_server(), *flags)


@contextlib.contextmanager
def web_page(folder: Path, text: str) -> Iterator[str]:
    """The URL of a page on this machine."""
    (folder / "index.html").write_text(text)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            pass

    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/index.html"
        finally:
            server.shutdown()
            thread.join()


async def test_a_browser_opens_a_page_clicks_and_reads(tmp_path: Path) -> None:
    aisles = ("bread", "cheese", "fish", "soap", "candles", "paper", "paint", "rope", "salt", "honey")
    shelves = "".join(
        f"<p>Shelf {number}: {aisles[number % 10]} from supplier {number * 7}, delivered on day {number}.</p>"
        for number in range(1_500)
    )
    (tmp_path / "page").mkdir()
    with web_page(tmp_path / "page", _PAGE + shelves) as url:
        async with mounted(tmp_path, {"browser": browser()}, within_s=_PATIENCE_S) as host:
            assert {tool.name for tool in host.daemon.gate.visible(Access("browser-only"))} == set(
                names(host, "browser")
            )
            assert (await send(host, "browser_navigate", url=url))["isError"] is False

            # As a model gets it, the snapshot is cut to its budget, and all of it is kept.
            (block,) = (await send(host, "browser_snapshot", client="claude-code"))["content"]
            assert len(block["text"].encode()) <= 32 * 1024
            assert "go on with fs_read_range path=ax://browser/" in block["text"]
            button = re.search(r'button "Order" \[ref=(\w+)\]', block["text"])
            assert button is not None
            clicked = await send(host, "browser_click", element="Order", target=button[1])
            assert clicked["isError"] is False, clicked

            question = "how many pears were ordered?"
            focused = await host.call("browser_snapshot", context_focus_question=question)
            assert "You have ordered 3 pears." in focused["text"]
            assert focused["pruning"]["applied"] is True, focused["pruning"]
            assert len(focused["text"]) < focused["pruning"]["raw_bytes"] / 2

            content = (await send(host, "browser_take_screenshot", client="claude-code"))["content"]
            (image,) = [block for block in content if block["type"] == "image"]
            assert image["mimeType"] in ("image/png", "image/jpeg")
            assert len(image["data"]) > 1_000


async def test_five_servers_at_once_and_what_their_list_costs(tmp_path: Path) -> None:
    repository(tmp_path / "repo")
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "id").write_text("secret")
    mounts = {
        "everything": script(programs.everything_server()),
        "files": {**script(programs.filesystem_server(), str(tmp_path)), "paths": ["path", "paths"]},
        "memory": {**script(programs.memory_server()), "env": {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}},
        "git": {"command": programs.git_server(), "args": ["-m", "mcp_server_git"]},
        "browser": browser(),
    }
    deny = {"paths": [{"id": "no-keys", "pattern": f"{tmp_path}/keys/**", "reason": "secret"}]}
    async with mounted(tmp_path, mounts, deny=deny, within_s=_PATIENCE_S) as host:
        # server-filesystem
        read = await host.call("read_text_file", path=str(tmp_path / "repo" / "note.txt"))
        assert "hello" in read["text"]
        assert (await host.call("read_text_file", path=f"{tmp_path}/keys/id"))["error"]["code"] == "DENIED"
        # git
        assert "note.txt" in (await host.call("git_status", repo_path=str(tmp_path / "repo")))["text"]
        # memory
        pear = {"name": "pear", "entityType": "fruit", "observations": ["it is green"]}
        await host.call("create_entities", entities=[pear])
        assert "it is green" in (await host.call("read_graph"))["text"]
        # everything
        assert (await host.call("get-sum", a=1, b=2))["text"] == "The sum of 1 and 2 is 3."
        kinds = [block["type"] for block in (await send(host, "get-tiny-image"))["content"]]
        assert kinds == ["text", "image", "text"]
        heard = await progress(host, "trigger-long-running-operation", {"duration": 1, "steps": 3})
        assert [done for done, _ in heard] == [1, 2, 3]
        await read_a_link(host)
        cost = {name: (whole_tokens(host, name), shown_tokens(host, name)) for name in mounts}
        before, after = (sum(each) for each in zip(*cost.values(), strict=True))
        assert after < before * 0.9, cost


def repository(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "note.txt").write_text("hello")


async def progress(host: ShellHost, tool: str, arguments: dict[str, Any]) -> list[tuple[float, float | None]]:
    heard: list[tuple[float, float | None]] = []
    caller = Caller("owner", Access(), "http")
    call = Call("test", caller, tool, arguments, report=lambda done, total, _: heard.append((done, total)))
    assert isinstance(await host.daemon.dispatcher.call(call), Success)
    return heard


async def read_a_link(host: ShellHost) -> None:
    content = (await send(host, "get-resource-links", count=2))["content"]
    links = [block["uri"] for block in content if block["type"] == "resource_link"]
    kind = MountedResources(host.daemon.gate, host.daemon.mounts, ToolContext("", OpenPaths(host.folder, ())))
    for uri in links:
        contents = await kind.read(Caller("owner", Access(), "http"), uri)
        assert contents is not None
        assert contents[0]["uri"] == uri


def whole_tokens(host: ShellHost, category: str) -> int:
    """What the list of a server costs a client that is connected to it directly."""
    from tools.kit.llm_tokens import estimate

    keys = ("name", "description", "inputSchema", "outputSchema")
    entries = host.daemon.mounts.known(category).tools
    return sum(estimate(json.dumps({key: entry[key] for key in keys if key in entry})) for entry in entries)


def shown_tokens(host: ShellHost, category: str) -> int:
    return sum(tool.list_tokens for tool in host.daemon.gate.catalog.categories[category])


@contextlib.contextmanager
def everything_over_http(port: int) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**node.environment(), "PORT": str(port)}
    command = [node.NODE, str(programs.everything_server()), "streamableHttp"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_server_over_http_is_called_and_found_again_after_its_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mcp_agent.upstream import upstream_server

    monkeypatch.setattr(upstream_server, "MOST_RESTARTS", 1_000)
    port = free_port()
    mounts = {"everything": {"url": f"http://127.0.0.1:{port}/mcp"}}
    with everything_over_http(port) as process:
        async with mounted(tmp_path, mounts, within_s=_PATIENCE_S) as host:
            assert (await host.call("get-sum", a=1, b=2))["text"] == "The sum of 1 and 2 is 3."
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            error = (await host.call("get-sum", a=1, b=2))["error"]
            assert error["code"] == "UPSTREAM_UNAVAILABLE"
            with everything_over_http(port):
                answer = await eventually(
                    lambda: host.call("get-sum", a=1, b=2), lambda answer: "text" in answer, within_s=_PATIENCE_S
                )
                assert answer["text"] == "The sum of 1 and 2 is 3."


async def test_ourselves_in_the_era_without_handshakes(home: Path, tmp_path: Path) -> None:
    """Over HTTP and over stdio. A tool that is switched off there is gone here."""
    with running(home) as daemon:
        headers = {"Authorization": f"Bearer {daemon.token}"}
        other = {"command": COMMAND, "args": ["stdio", "--tools-file", str(tmp_path / "inner.json")]}
        mounts = {"remote": {"url": f"{daemon.url}/mcp", "headers": headers}, "local": other}
        async with mounted(tmp_path, mounts) as host:
            versions = {key[0]: each.protocol_version for key, each in host.daemon.mounts._upstreams.items()}
            assert versions == {"remote": "2026-07-28", "local": "2026-07-28"}
            answer = await host.call("remote_shell_exec", command="echo from there")
            assert json.loads(answer["text"])["stdout"] == "from there\n"
            daemon.cli("disable", "fs_read")
            await eventually(lambda: "remote_fs_read" not in names(host, "remote"))
            assert "local_fs_read" in names(host, "local")
