"""`mcp-agent init`: its screen, its flags and what it writes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support.daemon import COMMAND, command, environment


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def _init(home: Path, project: Path, answers: str) -> str:
    return subprocess.run(
        [COMMAND, "init"], input=answers, capture_output=True, text=True, env=environment(home), cwd=project, check=True
    ).stdout


_VSCODE = {"type": "stdio", "command": COMMAND, "args": ["stdio"], "cwd": "${workspaceFolder}"}
_COPILOT = {"type": "local", "command": COMMAND, "args": ["stdio"], "tools": ["*"]}


def test_the_screen_asks_three_questions(home: Path, project: Path) -> None:
    assert _init(home, project, "y\ny\nn\n") == (
        "\n"
        "mcp-agent Initialization\n"
        "========================\n"
        "\n"
        "[1/3] Write AGENTS.md section? [Y/n] y\n"
        "✓ Created AGENTS.md\n"
        "\n"
        "[2/3] Write VS Code MCP config? [Y/n] y\n"
        "✓ Created .vscode/mcp.json\n"
        "\n"
        "[3/3] Write GitHub Copilot CLI MCP config? [Y/n] n\n"
        "⊘ Skipped\n"
        "\n"
        "Done! Run 'mcp-agent doctor' to verify setup.\n"
    )
    assert json.loads((project / ".vscode/mcp.json").read_text()) == {"servers": {"devbox": _VSCODE}}
    assert not (home / ".copilot").exists()


def test_no_link_of_a_project_leads_out_of_it(home: Path, project: Path) -> None:
    own = home / ".bashrc"
    own.write_text("# mine\n")
    (project / "AGENTS.md").symlink_to(own)
    (project / ".vscode").symlink_to(home)
    done = command(home, "init", "-y", "--write-mcp-vscode", cwd=project)
    assert done.returncode == 1
    assert done.stdout.count("which is not in the project") == 2
    assert own.read_text() == "# mine\n"
    assert not (home / "mcp.json").exists()


def test_the_end_of_input_is_no_consent(home: Path, project: Path) -> None:
    assert _init(home, project, "\n").count("⊘ Skipped") == 2
    assert [path.name for path in project.iterdir()] == ["AGENTS.md"]


@pytest.mark.parametrize(
    ("flags", "written"),
    [
        (["--write-mcp-vscode"], {"vscode"}),
        (["--write-mcp-copilot"], {"copilot"}),
        (["--write-mcp-all"], {"vscode", "copilot"}),
        (["-y"], {"agents"}),
        (["-y", "--write-mcp-all"], {"agents", "vscode", "copilot"}),
    ],
)
def test_the_flags_ask_nothing(home: Path, project: Path, flags: list[str], written: set[str]) -> None:
    done = command(home, "init", *flags, cwd=project)
    assert done.returncode == 0, done.stderr
    files = {
        "agents": project / "AGENTS.md",
        "vscode": project / ".vscode/mcp.json",
        "copilot": home / ".copilot/mcp-config.json",
    }
    assert {name for name, path in files.items() if path.exists()} == written
    if "copilot" in written:
        assert json.loads(files["copilot"].read_text()) == {"mcpServers": {"devbox": _COPILOT}}


def test_other_entries_and_the_rest_of_agents_md_stay(home: Path, project: Path) -> None:
    (project / "AGENTS.md").write_bytes(b"# Mine\r\n\r\nText.\r\n")
    file = home / ".copilot/mcp-config.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"other": {"type": "local"}}}')
    assert command(home, "init", "-y", "--write-mcp-all", cwd=project).returncode == 0
    text = (project / "AGENTS.md").read_bytes()
    assert text.startswith(b"# Mine\r\n\r\nText.\r\n\r\n<!-- mcp-agent: begin -->\r\n")
    assert b"\n" not in text.replace(b"\r\n", b"")
    assert json.loads(file.read_text())["mcpServers"] == {"other": {"type": "local"}, "devbox": _COPILOT}
    again = command(home, "init", "-y", "--write-mcp-all", cwd=project)
    assert again.stdout.count("✓ Unchanged: ") == 3
    assert (project / "AGENTS.md").read_bytes() == text


def test_what_is_committed_works_on_another_machine_and_nothing_else_is_in_the_project(
    home: Path, project: Path
) -> None:
    (project / "AGENTS.md").write_text("# Mine\n")
    (project / "AGENTS.md").chmod(0o664)
    (project / ".vscode").mkdir()
    (project / ".vscode/mcp.json").write_text("{}\n")
    (project / ".vscode/mcp.json").chmod(0o644)
    on_path = f"{Path(COMMAND).parent}:/usr/bin:/bin"
    done = command(home, "init", "-y", "--write-mcp-all", cwd=project, PATH=on_path)
    assert done.returncode == 0, done.stdout
    entry = {**_VSCODE, "command": "mcp-agent"}
    assert json.loads((project / ".vscode/mcp.json").read_text()) == {"servers": {"devbox": entry}}
    copilot = json.loads((home / ".copilot/mcp-config.json").read_text())
    assert copilot == {"mcpServers": {"devbox": {**_COPILOT, "command": "mcp-agent"}}}
    there = {str(path.relative_to(project)): stat.S_IMODE(path.stat().st_mode) for path in project.rglob("*.*")}
    assert there == {"AGENTS.md": 0o664, ".vscode": 0o755, ".vscode/mcp.json": 0o644}
    backups = sorted(path.read_text() for path in (home / ".local/state/mcp-agent/client-backups").iterdir())
    assert backups == ["# Mine\n", "{}\n"]
    # A file of the project is taken back as one of the user's is.
    assert command(home, "connect", "remove", "vscode", cwd=project, PATH=on_path).returncode == 0
    assert (project / ".vscode/mcp.json").read_text() == "{}\n"


def test_new_files_of_a_project_can_be_read_as_its_others_unless_a_secret_is_in_them(home: Path, project: Path) -> None:
    mask = os.umask(0o022)
    os.umask(mask)
    assert command(home, "init", "-y", "--write-mcp-vscode", cwd=project).returncode == 0
    assert command(home, "connect", "gemini-cli", "--project", cwd=project).returncode == 0
    modes = [
        stat.S_IMODE((project / file).stat().st_mode)
        for file in ("AGENTS.md", ".vscode/mcp.json", ".gemini/settings.json")
    ]
    assert modes == [0o666 & ~mask, 0o666 & ~mask, 0o600]


def test_a_file_that_cannot_be_read_is_left_alone(home: Path, project: Path) -> None:
    (project / ".vscode").mkdir()
    (project / ".vscode/mcp.json").write_text("{")
    done = command(home, "init", "--write-mcp-all", cwd=project)
    assert done.returncode == 1
    assert f"✗ {project / '.vscode/mcp.json'} is left alone: line 1, column 2" in done.stdout
    assert (home / ".copilot/mcp-config.json").exists()
    assert done.stdout.endswith("\nNot done: 1 of 3 steps failed, for the reasons above.\n")
    assert "Done!" not in done.stdout
