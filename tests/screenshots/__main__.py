"""Draw docs/images: `python -m tests.screenshots`. A real daemon on a terminal, a real client, real commands.

Only the scratch folder and the free port are replaced, by those that a reader has.
"""

from __future__ import annotations

import http.client
import io
import json
import re
import tempfile
import urllib.request
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.support import ROOT
from tests.support.daemon import COMMAND
from tests.support.terminal import on_a_terminal
from tests.support.waiting import PATIENCE_S

_IMAGES = ROOT / "docs" / "images"
_COLUMNS = 100
_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_PROGRAM = '''\
"""Prices."""


def total(prices: list[float], discount: float) -> float:
    return sum(prices) * discount
'''
_TEST = """\
import unittest

from prices import total


class TotalTest(unittest.TestCase):
    def test_a_discount_is_taken_off(self) -> None:
        self.assertEqual(total([10.0, 10.0], 0.25), 15.0)
"""


def main() -> None:
    _IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "you"
        project = home / "shop"
        project.mkdir(parents=True)
        (project / "prices.py").write_text(_PROGRAM)
        (project / "test_prices.py").write_text(_TEST)
        path = f"{Path(COMMAND).parent}:/usr/bin:/bin"
        with on_a_terminal(home, "serve", "--port", "0", PATH=path) as terminal:
            terminal.wait_for("Ctrl-C ends it.")
            found = re.search(r"(http://127\.0\.0\.1:(\d+))/mcp", terminal.shown)
            assert found is not None
            _work(found[1], (home / ".local/state/mcp-agent/token").read_text().strip(), project)
            terminal.wait_for("shell_exec python3 …")
            commands = "".join(_run(home, path, line) for line in ("undo", "doctor", "disable shell"))
            terminal.wait_for("shell off")
            terminal.interrupt()
        replaced = {str(home): "/home/you", found[2]: "8765"}
        _draw("serve", "mcp-agent serve", terminal.raw.replace("^C", ""), replaced)
        _draw("commands", "mcp-agent", commands, replaced)


def _work(url: str, token: str, project: Path) -> None:
    """A client looks for a bug, corrects it, and runs the tests."""
    patch = {"type": "replace_first", "pattern": "* discount", "replacement": "* (1 - discount)"}
    calls: list[tuple[str, dict[str, object]]] = [
        ("fs_grep", {"base": str(project), "pattern": "discount"}),
        ("fs_read_range", {"path": str(project / "prices.py"), "start_line": 1, "end_line": 5}),
        ("fs_patch", {"path": str(project / "prices.py"), "operations": [patch]}),
        ("shell_exec", {"command": "python3 -m unittest -q", "cwd": str(project)}),
    ]
    info = {"name": "claude-code", "version": "2.1.0"}
    begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    session = _post(url, token, None, "initialize", begin).headers["Mcp-Session-Id"]
    for name, arguments in calls:
        answer = _post(url, token, session, "tools/call", {"name": name, "arguments": arguments})
        assert '"isError":false' in answer.read().decode().replace(" ", ""), name


def _post(url: str, token: str, session: str | None, method: str, params: object) -> http.client.HTTPResponse:
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **({} if session is None else {"Mcp-Session-Id": session}),
    }
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    answer: http.client.HTTPResponse = urllib.request.urlopen(
        urllib.request.Request(f"{url}/mcp", message, headers), timeout=PATIENCE_S
    )
    return answer


def _run(home: Path, path: str, line: str) -> str:
    with on_a_terminal(home, *line.split(), PATH=path) as terminal:
        terminal.wait()
    return f"\x1b[1m$ mcp-agent {line}\x1b[0m\r\n{terminal.raw}\r\n"


def _draw(name: str, title: str, text: str, replaced: dict[str, str]) -> None:
    for found, instead in replaced.items():
        text = text.replace(found, instead)
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), color_system="standard", force_terminal=True)
    for line in text.replace("\r\n", "\n").strip("\n").split("\n"):
        console.print(Text.from_ansi(line), highlight=False, soft_wrap=False)
    # The fonts would be fetched from elsewhere; those of the reader do.
    picture = _FONTS.sub("", console.export_svg(title=title, unique_id=name))
    (_IMAGES / f"{name}.svg").write_text(picture, "utf-8")


if __name__ == "__main__":
    main()
