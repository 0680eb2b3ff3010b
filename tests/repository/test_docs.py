"""What the pages show is run. The `bash` blocks of a page are run in order, each as it stands, in one clean home; a
`json NAME` block must be a good file of that kind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from mcp_agent.cli.reference import pages
from tests.support import ROOT
from tests.support.daemon import command, environment, running
from tests.support.waiting import PATIENCE_S

_PAGES = sorted(ROOT.glob("docs/*.md"))
_README = ROOT / "README.md"
_BLOCK = re.compile(r"^```(\S+)(?: (\S+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?://)([^)#]*)(?:#([^)]*))?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)

# What the quickstart tells its reader to type first in another terminal. Nothing else puts our commands on the PATH.
_ACTIVATE = ". .venv/bin/activate"
_BARE_PATH = "/usr/bin:/bin"


def _blocks(page: Path, language: str, name: str | None = None) -> list[str]:
    found = _BLOCK.finditer(page.read_text("utf-8"))
    return [block[3] for block in found if block[1] == language and block[2] == name]


def _run(blocks: Sequence[str], url: str, home: Path, **extra: str) -> None:
    """Run blocks in order in a shell with nothing prepared: at home, or in the clone where a block says so."""
    script = f"cd {ROOT}\n{_ACTIVATE}\n"
    for block in blocks:
        script += f"cd {ROOT if _ACTIVATE in block else '$HOME'}\n{block}"
    script = script.replace("http://127.0.0.1:8765", url).replace("curl -s ", "curl -sS --fail-with-body ")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment(home, {"PATH": _BARE_PATH, **extra}),
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", [page for page in _PAGES if _blocks(page, "bash")], ids=lambda page: page.name)
def test_the_blocks_of_a_page_end_well_in_order(home: Path, page: Path) -> None:
    """The daemon of the test stands in for the one that the page has its reader start."""
    with running(home, extra={"MCP_AGENT_COMMAND_UNDO": "true"}) as daemon:
        _run(_blocks(page, "bash"), daemon.url, daemon.home, MCP_AGENT_CONFIG=str(daemon.tools_json))


def test_the_readme_works_from_its_first_command_to_its_last(home: Path) -> None:
    """Seen: after `make serve`, every further command of the README was "command not found"."""
    first, *blocks = [
        block[3] for block in _BLOCK.finditer(_README.read_text("utf-8")) if block[1] in ("console", "bash")
    ]
    assert first == "$ make serve\n"
    assert blocks[0].startswith(_ACTIVATE)
    variables = environment(home, {"PATH": _BARE_PATH, "MCP_AGENT_PORT": "0"})
    # Only make's own file is in the way of a second run beside this one: nothing is installed, because it is done.
    serving = subprocess.Popen(
        ["make", "serve"], stdout=subprocess.PIPE, env=variables, cwd=ROOT, start_new_session=True
    )
    assert serving.stdout is not None
    try:
        ready = next(line for line in serving.stdout if line.startswith(b"{"))
        _run(blocks, json.loads(ready)["url"], home)
    finally:
        os.killpg(serving.pid, signal.SIGINT)
        serving.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize(
    "page", [page for page in _PAGES if _blocks(page, "json", "tools.json")], ids=lambda page: page.name
)
def test_the_files_of_a_page_are_good_ones(home: Path, page: Path) -> None:
    for text in _blocks(page, "json", "tools.json"):
        (home / "tools.json").write_text(text)
        done = command(home, "check", "tools.json")
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [*_PAGES, _README], ids=lambda page: page.name)
def test_the_json_of_a_page_is_json(page: Path) -> None:
    for text in _blocks(page, "json"):
        json.loads(text)


@pytest.mark.parametrize(
    "page",
    [*_PAGES, _README, ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("examples/**/*.md"))],
    ids=lambda page: page.name,
)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    broken = [
        f"{link}#{place}"
        for link, place in _LINK.findall(page.read_text("utf-8"))
        if not (page.parent / link).exists() or (place and place not in _places(page.parent / link if link else page))
    ]
    assert broken == []


def _places(page: Path) -> set[str]:
    """The anchors of the headings of a page, as a viewer makes them of their words."""
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(page.read_text("utf-8")))
    return {each.replace(" ", "-") for each in words}


@pytest.mark.parametrize("name", pages())
def test_generated_pages_are_current(name: str) -> None:
    assert (ROOT / "docs" / name).read_text("utf-8") == pages()[name]


def test_every_page_can_be_found_from_the_readme() -> None:
    readme = _README.read_text("utf-8")
    assert [page.name for page in _PAGES if f"docs/{page.name}" not in readme] == []
