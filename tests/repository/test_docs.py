"""What the pages show is run. A `bash` block must end well; a `json NAME` block must be a good file of that kind."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_agent.reference import pages
from tests.support import ROOT
from tests.support.daemon import COMMAND, Daemon, command, environment

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


@pytest.mark.parametrize(("script", "_name"), _blocks("bash"))
def test_what_a_page_runs_ends_well(daemon: Daemon, script: str, _name: None) -> None:
    """The daemon of the test stands in for the one that the page has its reader start."""
    here = script.replace("http://127.0.0.1:8765", daemon.url)
    variables = {"PATH": f"{Path(COMMAND).parent}:/usr/bin:/bin", "MCP_AGENT_CONFIG": str(daemon.tools_json)}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", here.replace("curl -s ", "curl -sS --fail-with-body ")],
        capture_output=True,
        text=True,
        env=environment(daemon.home, variables),
        cwd=daemon.home,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


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
