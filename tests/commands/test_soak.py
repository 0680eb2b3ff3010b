"""A daemon under mixed load, with kills, restarts, full disks and reloads: it loses nothing and does not grow.

For an hour with `make test-long`, for some seconds otherwise; `MCP_AGENT_SOAK_S` says how long.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

import pytest

from mcp_agent.sessions import process_tree
from tests.support.broken_disk import SmallDisk, can_break_disks, small_disk
from tests.support.daemon import Daemon, running
from tests.support.mixed_load import MixedLoad

IS_LONG = bool(os.environ.get("MCP_AGENT_TEST_LONG"))
_SECONDS = float(os.environ.get("MCP_AGENT_SOAK_S") or (3_600 if IS_LONG else 12))
_KILLS = 20 if IS_LONG else 2
# The share of the time before the last start of the daemon, which runs to the end and is measured.
_KILLED_SHARE = 0.15
# What is kept reaches its limits in this time, so that memory grows until then.
_WARM_UP_S = min(1_200.0, _SECONDS * (1 - _KILLED_SHARE) / 2)
# An hour of calls is 240 MB of audit log.
_DISK_MIB = 448 if IS_LONG else 96
# Small, so that every limit is reached and what is old is let go.
_LIMITS = ("--journal-mb", "8", "--artifacts-mb", "8", "--artifacts-caller-mb", "6")
_MOST_SLOPE_MIB_PER_H = 1.0
# Within this time a daemon that has become idle gives free memory back.
_REST_S = 12.0 if IS_LONG else 0.5


class Sample(NamedTuple):
    """What a process holds at one time."""

    at_s: float
    rss_kib: int
    descriptors: int
    threads: int


@pytest.mark.alone
@pytest.mark.timeout(_SECONDS * 2 + 240)
async def test_it_loses_nothing_and_does_not_grow(home: Path) -> None:
    work = home / "work"
    work.mkdir()
    with _disk(home) as disk:
        load = MixedLoad(work, disk)
        for number in range(_KILLS):
            with _daemon(home, disk) as daemon:
                _check_start(load, daemon)
                await load.check_artifacts(daemon)
                await load.run(daemon, _SECONDS * _KILLED_SHARE / _KILLS, is_killed=number % 2 == 0)
        with _daemon(home, disk) as daemon:
            _check_start(load, daemon)
            await load.check_artifacts(daemon)
            quiet = _sample(daemon)
            samples: list[Sample] = []
            with (home.parent / "samples.csv").open("w") as file:
                watching = asyncio.ensure_future(_watch(daemon, load, samples, file))
                await load.run(daemon, _SECONDS * (1 - _KILLED_SHARE), is_killed=False)
                watching.cancel()
            load.check_files()
            await load.check_artifacts(daemon)
            end = await _settled(daemon, quiet)
            _check_audit(daemon, disk)
            _check_log(daemon)
        warm = [each for each in samples if each.at_s >= quiet.at_s + _WARM_UP_S]
        slope, error = _slope_mib_per_h(warm)
        rss = [round(each.rss_kib / 1024, 1) for each in (quiet, *samples[9::10], end)]
        print(f"\nsoak of {_SECONDS:g} s: {dict(load.counts)}; RSS {rss} MiB, {slope:.2f} ± {error:.2f} MiB/h")
        print(f"{quiet} {end}; samples in {home.parent / 'samples.csv'}")
    assert end.descriptors <= quiet.descriptors + 10
    # Each client has one request at a time, and a pool keeps the threads that it once had.
    assert end.threads <= quiet.threads + 24
    assert end.rss_kib - quiet.rss_kib < 80 * 1024
    if _SECONDS >= 3_600:
        earlier, later = warm[: len(warm) // 2], warm[len(warm) // 2 :]
        assert _median_descriptors(later) <= _median_descriptors(earlier) + 3
        assert slope < _MOST_SLOPE_MIB_PER_H


@contextlib.contextmanager
def _disk(home: Path) -> Iterator[SmallDisk | None]:
    """A disk that can be broken, where we have the rights for one."""
    if not can_break_disks():
        yield None
        return
    with small_disk(home, _DISK_MIB) as disk:
        yield disk


@contextlib.contextmanager
def _daemon(home: Path, disk: SmallDisk | None) -> Iterator[Daemon]:
    if disk is None:
        with running(home, *_LIMITS) as daemon:
            yield daemon
    else:
        with running(home, *disk.arguments, *_LIMITS, start=disk.start) as daemon:
            yield daemon


def _check_start(load: MixedLoad, daemon: Daemon) -> None:
    """After a kill or a stop: every file is whole, and only processes of this daemon have a tag of this home."""
    load.check_files()
    for member in process_tree.find(process_tree.environment_entry("")):
        with contextlib.suppress(OSError):
            environment = Path(f"/proc/{member.pid}/environ").read_bytes()
            assert f"HOME={daemon.home}\0".encode() not in environment, process_tree.command_line(member)


def _check_audit(daemon: Daemon, disk: SmallDisk | None) -> None:
    """The lines are whole, and their numbers go up by one, but for those that a fault of the disk took."""
    state = daemon.home / ".local" / "state" / "mcp-agent" if disk is None else disk.path("state")
    boots: dict[str, list[int]] = {}
    for line in (state / "audit" / "audit.jsonl").read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            facts = json.loads(line)
            boots.setdefault(facts["boot"], []).append(facts["seq"])
    assert all(numbers == sorted(set(numbers)) for numbers in boots.values())
    if disk is None:
        assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in boots.values())


def _check_log(daemon: Daemon) -> None:
    with daemon.stderr.open() as lines:
        failed = [line for line in lines if '"level":"error"' in line and '"event":"audit.failed"' not in line]
    assert failed == []


def _sample(daemon: Daemon) -> Sample:
    folder = Path(f"/proc/{daemon.process.pid}")
    fields = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    rss_kib, threads = int(fields["VmRSS"].split()[0]), int(fields["Threads"])
    return Sample(time.monotonic(), rss_kib, len(list((folder / "fd").iterdir())), threads)


async def _watch(daemon: Daemon, load: MixedLoad, samples: list[Sample], file: TextIO) -> None:
    """Sample the daemon while it is idle: what it holds for calls under way tells nothing of what it keeps."""
    while True:
        await asyncio.sleep(min(40.0, _SECONDS / 15))
        async with load.paused():
            await asyncio.sleep(_REST_S)
            samples.append(_sample(daemon))
        print(*samples[-1], sep=",", file=file, flush=True)


async def _settled(daemon: Daemon, quiet: Sample) -> Sample:
    """What the daemon holds when its clients are gone: connections and sessions end a little later."""
    deadline = time.monotonic() + 15
    while (sample := _sample(daemon)).descriptors > quiet.descriptors + 10 and time.monotonic() < deadline:
        await asyncio.sleep(0.2)
    return sample


def _median_descriptors(samples: list[Sample]) -> float:
    return statistics.median(each.descriptors for each in samples)


def _slope_mib_per_h(samples: list[Sample]) -> tuple[float, float]:
    """How fast the memory grows, and the standard error, by least squares."""
    if len(samples) < 3:
        return 0.0, 0.0
    hours, mib = [each.at_s / 3_600 for each in samples], [each.rss_kib / 1_024 for each in samples]
    slope, intercept = statistics.linear_regression(hours, mib)
    squares = sum((y - slope * x - intercept) ** 2 for x, y in zip(hours, mib, strict=True))
    spread = statistics.pvariance(hours) * len(hours)
    return slope, (squares / (len(hours) - 2) / spread) ** 0.5
