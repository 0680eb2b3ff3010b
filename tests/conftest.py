"""Fixtures that more than one file of tests needs."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType

import platformdirs
import pytest
from hypothesis import settings

from tests.support.daemon import WITH_PROBES, Daemon, running
from tests.support.peers import WIRES, Connect
from tests.support.shell_host import ShellHost, shell_host

# A login shell that a test starts reads no profile of whoever runs the tests: it may take seconds, or wait for a lock.
# Programs that are installed once stay where they are.
os.environ.setdefault("XDG_CACHE_HOME", str(platformdirs.user_cache_path()))
os.environ["HOME"] = tempfile.mkdtemp(prefix="mcp-agent-home-")
atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)

# The same examples each time, so that a red run is a change of ours; `make test-long` looks further, and elsewhere.
settings.register_profile("short", max_examples=60, deadline=None, derandomize=True, database=None)
settings.register_profile("long", max_examples=2_000, deadline=None, database=None)
settings.load_profile("long" if os.environ.get("MCP_AGENT_TEST_LONG") else "short")


# What `make test-fast` leaves out: tests that start a daemon of their own, or programs of others.
_STARTED = {"daemon", "shared_daemon", "probes"}
_STARTING = {
    f"tests.support.{name}"
    for name in (
        "browser",
        "daemon",
        "fleet",
        "nats",
        "node",
        "open_webui",
        "programs",
        "pruner_http",
        "pruner_stdio",
        "raw",
        "recording_daemon",
        "terminal",
    )
}


# And what takes it many seconds of a processor.
_SLOW = {
    "tests.answers.test_invariants",
    "tests.repository.test_benchmarks",
    "tests.tools.files.test_images",
    "tests.tools.journal.test_journal_crashes",
    "tests.tools.sessions.test_freed_memory",
    "tests.transports.test_fuzz",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if _STARTED & set(item.fixturenames) or _starts_programs(item.module):
            item.add_marker("starts")
        if item.module.__name__ in _SLOW:
            item.add_marker("slow")


def _starts_programs(module: ModuleType) -> bool:
    """Whether a file of tests uses what starts programs: a module of it, or one of its functions."""
    used = (getattr(value, "__module__", None) or getattr(value, "__name__", None) for value in vars(module).values())
    named = {value.__name__ for value in vars(module).values() if isinstance(value, ModuleType)}
    return not _STARTING.isdisjoint({*used, *named})


@pytest.fixture(scope="session", autouse=True)
def heed_signals() -> None:
    """A shell ignores these for what runs in its background, and so does `nohup`; our daemons would inherit that."""
    for number, action in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, action)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def daemon(home: Path) -> Iterator[Daemon]:
    """A daemon with everything on."""
    with running(home) as started:
        yield started


@pytest.fixture(scope="module")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for all tests of a file, for tests that change nothing of it."""
    with running(tmp_path_factory.mktemp("home")) as started:
        yield started


@pytest.fixture(scope="module")
def probes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for all tests of a file, with the tests' own tools."""
    with running(tmp_path_factory.mktemp("home"), start=WITH_PROBES) as started:
        yield started


@pytest.fixture(params=list(WIRES))
def connect(request: pytest.FixtureRequest) -> Connect:
    """Each wire in turn."""
    return WIRES[request.param]


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[ShellHost]:
    """A daemon without a wire, for tests of sessions; at its end none of its processes may be left."""
    async with shell_host(tmp_path) as host:
        yield host
