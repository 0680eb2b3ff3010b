"""What the pages show is run. A `bash` block must end well; a `json NAME` block must be a good file of that kind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_agent.cli.reference import pages
from tests.support import ROOT
from tests.support.daemon import Daemon, command, environment
from tests.support.waiting import PATIENCE_S

_PAGES = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md"])
_BLOCK = re.compile(r"^```(\S+)(?: (\S+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?://)([^)#]+)")


def _blocks(language: str) -> list[object]:
    return list(_found(language))


def _found(language: str) -> Iterator[object]:
    for page in _PAGES:
        for number, block in enumerate(_BLOCK.finditer(page.read_text("utf-8"))):
            if block[1] == language:
                yield pytest.param(block[3], block[2], id=f"{page.name}-{number}")


# What the README tells its reader to type first in another terminal. Nothing else puts our commands on the PATH.
_ACTIVATE = ". .venv/bin/activate"
_BARE_PATH = "/usr/bin:/bin"


def _run(script: str, url: str, home: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run a script of a page in the folder of the repository, in a shell with nothing prepared."""
    here = script.replace("http://127.0.0.1:8765", url).replace("curl -s ", "curl -sS --fail-with-body ")
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", here],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment(home, {"PATH": _BARE_PATH, **extra}),
        cwd=ROOT,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(("script", "_name"), [each for each in _blocks("bash") if "README" not in str(each)])
def test_what_a_page_runs_ends_well(daemon: Daemon, script: str, _name: None) -> None:
    """The daemon of the test stands in for the one that the page has its reader start."""
    script = f"{_ACTIVATE}\ncd {daemon.home}\n{script}"
    done = _run(script, daemon.url, daemon.home, MCP_AGENT_CONFIG=str(daemon.tools_json))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_works_from_its_first_command_to_its_last(home: Path) -> None:
    """Seen: after `make serve`, every further command of the README was "command not found"."""
    blocks = [block[3] for block in _BLOCK.finditer((ROOT / "README.md").read_text("utf-8")) if block[1] != "json"]
    assert blocks[0] == "$ make serve\n"
    assert blocks[1].startswith(_ACTIVATE)
    variables = environment(home, {"PATH": _BARE_PATH, "MCP_AGENT_PORT": "0"})
    # Only make's own file is in the way of a second run beside this one: nothing is installed, because it is done.
    serving = subprocess.Popen(
        ["make", "serve"], stdout=subprocess.PIPE, env=variables, cwd=ROOT, start_new_session=True
    )
    assert serving.stdout is not None
    try:
        ready = next(line for line in serving.stdout if line.startswith(b"{"))
        script = "\n".join(blocks[1:])
        done = _run(script, json.loads(ready)["url"], home)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "all is well" in done.stdout
    finally:
        os.killpg(serving.pid, signal.SIGINT)
        serving.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize(("text", "name"), _blocks("json"))
def test_a_file_on_a_page_is_a_good_one(home: Path, text: str, name: str | None) -> None:
    if name == "tools.json":
        (home / "tools.json").write_text(text)
        done = command(home, "check", "tools.json")
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    missing = [link for link in _LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("name", pages())
def test_generated_pages_are_current(name: str) -> None:
    assert (ROOT / "docs" / name).read_text("utf-8") == pages()[name]


def test_every_page_can_be_found_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert [page.name for page in ROOT.glob("docs/*.md") if f"docs/{page.name}" not in readme] == []
