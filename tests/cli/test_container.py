"""The container of examples/containers: built and run where that can be done, and read everywhere."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.config import load
from tests.support import ROOT, container_root

_FOLDER = ROOT / "examples" / "containers"
_CONTAINERFILE = (_FOLDER / "Containerfile").read_text()
_COMPOSE = (_FOLDER / "compose.yaml").read_text()

# As docs/containers.md says: a read-only root and no capability. Neither the build nor the container has a network.
_RUN = """
cat > /etc/containers/storage.conf <<END
[storage]
driver = "overlay"
runroot = "/run/containers"
graphroot = "/shared/storage"
END
{ tar -C / --one-file-system --exclude=./{shared,src,run,tmp,var/tmp} -c . | podman import - base
  podman build --build-arg BASE=localhost/base --isolation=chroot --network=host -v /shared/wheels:/wheels:ro \\
    -v /shared/pip.conf:/etc/pip.conf:ro -f /src/examples/containers/Containerfile -t mcp-agent /src; } >&2
mkdir /tmp/work && chown 1000 /tmp/work && printf hello > /tmp/work/a.txt
podman run -d --name one --network=none --cgroups=disabled --read-only --cap-drop=ALL \\
  --security-opt=no-new-privileges -v /tmp/work:/work mcp-agent >&2
for _ in $(seq 100); do podman exec one mcp-agent status >/dev/null 2>&1 && break; sleep 0.2; done
inside() { podman exec one mcp-agent "$@"; }
inside status --json
inside call --json fs_read path=a.txt
inside call --json shell_exec \\
  command='id -un; tr "\\0" " " < /proc/1/cmdline; echo; touch /etc/x 2>&1; echo made > made.txt'
inside doctor --json
printf '%s\\n' "$1" | podman exec -i one mcp-agent stdio --attach 2>/dev/null
# An orphan, which its first process has to reap.
podman exec one sh -c '(sleep 0.1 &)'
sleep 4
podman exec one sh -c 'cat /proc/[0-9]*/stat' | awk '{ if ($3 == "Z") zombies += 1 } END { print zombies + 0 }'
podman stop -t 20 one >&2
podman inspect one --format '{{.State.ExitCode}}'
cat /tmp/work/made.txt
"""
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def _wheels(shared: Path) -> None:
    """What the image installs, gathered beforehand: the container is built without a network."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(shared / "wheels")]
    backend = re.search(r'requires = \["([^"]*)"\]', (ROOT / "pyproject.toml").read_text())
    assert backend is not None
    subprocess.run([*pip, f"{ROOT}[images,fleet]", backend[1]], check=True, timeout=300)
    for own in (shared / "wheels").glob("mcp_agent_host*"):
        own.unlink()
    (shared / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")


@pytest.mark.skipif(container_root.why_not() is not None, reason=str(container_root.why_not()))
@pytest.mark.alone
@pytest.mark.timeout(1_200)
def test_the_container_is_built_and_does_its_work(tmp_path: Path) -> None:
    _wheels(tmp_path)
    done = container_root.run(_RUN, tmp_path, json.dumps(_INITIALIZE))
    assert done.returncode == 0, done.stderr[-4_000:]
    *answers, zombies, exit_code, made = done.stdout.splitlines()
    status, read, ran, findings, greeting = _documents("\n".join(answers))
    assert status["running"]
    assert status["pid"] == 1
    assert read["content"] == "hello"
    user, first, refused = ran["stdout"].splitlines()
    assert user == "agent"
    assert first.split()[1:] == ["/opt/mcp-agent/bin/mcp-agent", "serve", "--host", "0.0.0.0"]
    assert "Read-only file system" in refused
    assert [finding["news"] for finding in findings if not finding["ok"]] == []
    assert greeting["result"]["serverInfo"]["name"] == "mcp-agent"
    assert (zombies, exit_code, made) == ("0", "0", "made")


def _documents(text: str) -> list[Any]:
    """The JSON documents that stand one after the other."""
    found, decoder = [], json.JSONDecoder()
    while text := text.lstrip():
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:]
    return found


def test_what_the_container_copies_is_in_the_repository_and_enough_to_install_it() -> None:
    copied = [shlex.split(line)[1:-1] for line in _lines("COPY") if "--from" not in line]
    names = {name for line in copied for name in line}
    assert all((ROOT / name).exists() for name in names), names
    project = (ROOT / "pyproject.toml").read_text()
    packages = re.search(r"^packages = (\[.*\])$", project, re.MULTILINE)
    assert packages is not None
    assert {*json.loads(packages[1]), "pyproject.toml", "hatch_build.py", "README.md", "LICENSE"} == names
    extras = re.search(r"/src\[([a-z,]*)\]", _CONTAINERFILE)
    assert extras is not None
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras[1].split(","))


def test_the_container_starts_a_command_with_flags_that_exist() -> None:
    entry, command = (json.loads(_lines(word)[0].partition(" ")[2]) for word in ("ENTRYPOINT", "CMD"))
    assert entry == ["mcp-agent"]
    assert command[0] == "serve"
    # The settings read it as the program does.
    flags = dict(zip(command[1::2], command[2::2], strict=True))
    assert load({flag.removeprefix("--").replace("-", "_"): value for flag, value in flags.items()}).host == "0.0.0.0"
    assert "mcp-agent = " in (ROOT / "pyproject.toml").read_text()


def test_the_container_runs_as_a_user_that_it_makes_with_a_home_that_is_kept() -> None:
    (user,) = (line.split()[1] for line in _lines("USER"))
    assert re.search(rf"useradd .*\b{user}\b", _CONTAINERFILE)
    (kept,) = (line.split()[1] for line in _lines("VOLUME"))
    assert kept == f"/home/{user}"
    assert f":{kept}" in _COMPOSE
    assert f":{_lines('WORKDIR')[0].split()[1]}" in _COMPOSE


def test_the_compose_file_names_the_container_and_its_port() -> None:
    context, file = (re.search(rf"{word}: (\S+)", _COMPOSE) for word in ("context", "dockerfile"))
    assert context is not None
    assert file is not None
    assert (_FOLDER / context[1]).resolve() == ROOT
    assert (ROOT / file[1]).is_file()
    (exposed,) = (line.split()[1] for line in _lines("EXPOSE"))
    assert exposed == str(load({}).port)
    assert f"127.0.0.1:{exposed}:{exposed}" in _COMPOSE


def _lines(word: str) -> list[str]:
    return [line for line in _CONTAINERFILE.splitlines() if line.startswith(f"{word} ")]
