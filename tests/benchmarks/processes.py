"""Programs under measurement: started apart from the user's own files, read in /proc, ended for sure."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.support import ROOT

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PATIENCE_S = 30.0
_LOOK_EVERY_S = 0.01


class Program:
    """A running program with pipes to it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None, "it is started with pipes"
        assert process.stdout is not None, "it is started with pipes"
        self.pid = process.pid
        self.stdin: IO[bytes] = process.stdin
        self.stdout: IO[bytes] = process.stdout

    def line(self) -> bytes:
        """The next line that it prints. Raises RuntimeError if it ends instead."""
        line = self.stdout.readline()
        if not line:
            raise RuntimeError(f"process {self.pid} ended without an answer")
        return line

    def processor_s(self) -> float:
        """The processor time that all its threads have used, in and for it."""
        # The command's name is in brackets and may have spaces in it; what follows may not.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def resident_mb(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(kilobytes) / 1024

    def wait_until_loaded(self, library: str) -> None:
        """Return once it has mapped a file with `library` in its path."""
        deadline = time.monotonic() + _PATIENCE_S
        while library not in Path(f"/proc/{self.pid}/maps").read_text():
            if time.monotonic() > deadline:
                raise RuntimeError(f"process {self.pid} has not loaded {library} in {_PATIENCE_S:g} s")
            time.sleep(_LOOK_EVERY_S)


@contextmanager
def running(
    command: Sequence[str | Path],
    folder: Path,
    *,
    inherited: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Program]:
    """Run `command` until the block ends. What it would keep in the user's folders, it keeps in `folder`.

    It gets the open files `inherited` under their numbers, and `environment` besides ours.
    """
    with (folder / "stderr").open("ab") as errors:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=folder,
            env={**_environment(folder), **(environment or {})},
            pass_fds=inherited,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    with process:
        try:
            yield Program(process)
        finally:
            process.kill()


def subject(name: str) -> list[str]:
    """The command that runs one of the programs in `subjects`."""
    return [sys.executable, "-m", f"tests.benchmarks.subjects.{name}"]


def mcp_agent(*arguments: str) -> list[str]:
    """The command as people have it after an installation."""
    return [str(Path(sys.executable).with_name("mcp-agent")), *arguments]


def _environment(folder: Path) -> dict[str, str]:
    """The user's, without the settings of their own daemon, and with other folders to keep things in.

    Python keeps compiled modules as it does unless it is told otherwise: a start is not to be one that compiles.
    """
    ours = ("MCP_AGENT_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {
        **kept,
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_STATE_HOME": str(folder / "state"),
        # The subjects are modules of this repository, whatever folder they are run in.
        "PYTHONPATH": str(ROOT),
    }
