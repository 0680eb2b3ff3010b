"""A daemon under mixed load, with kills, restarts, full disks and reloads: it loses nothing and does not grow.

For an hour with `make test-long`, for some seconds otherwise; `MCP_AGENT_SOAK_S` says how long.

What the hour can tell of growth: it samples the resident memory between calls, after a rest in which the daemon gives
free memory back, and among calls. Of its 57 minutes with one daemon the last 27 count, with some 33 pauses. Between
calls a sample is 0.3 to 0.4 MiB off the line, so the slope has a standard error of about 0.5 MiB/h; among calls, where
the median of each stretch is taken, 0.7 to 1.1 MiB and 1 to 1.5 MiB/h. The test fails where a slope is above the
promise by twice its error: a leak of 2 MiB/h is seen about every second time and one of 3 MiB/h nearly always. One of
1 MiB/h, which is what we promise, an hour cannot tell from none. It fails as well where the error is too large for a
verdict, such as on a machine that does much else.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

import pytest

from tests.support.broken_disk import SmallDisk, can_break_disks, small_disk
from tests.support.daemon import Daemon, running
from tests.support.mixed_load import MixedLoad
from tools.sessions import process_tree

IS_LONG = bool(os.environ.get("MCP_AGENT_TEST_LONG"))
_SECONDS = float(os.environ.get("MCP_AGENT_SOAK_S") or (3_600 if IS_LONG else 12))
_KILLS = 20 if IS_LONG else 2
# The share of the time before the last start of the daemon, which runs to the end and is measured.
_KILLED_SHARE = 0.05
# What is kept reaches its limits in this time, so that memory grows until then.
_WARM_UP_S = min(1_800.0, _SECONDS * (1 - _KILLED_SHARE) / 2)
# An hour of calls is 240 MB of audit log.
_DISK_MIB = 448 if IS_LONG else 96
# Small, so that every limit is reached and what is old is let go.
_LIMITS = ("--journal-mb", "8", "--artifacts-mb", "8", "--artifacts-caller-mb", "6")
_MOST_SLOPE_MIB_PER_H = 1.0
# With more, growth of several MiB/h would pass.
_MOST_ERROR_MIB_PER_H = 1.0
# Within this time a daemon that has become idle gives free memory back.
_REST_S = 12.0 if IS_LONG else 0.5
# Between two pauses.
_BUSY_S = min(36.0, _SECONDS / 15)
_BUSY_SAMPLES = 18


class Sample(NamedTuple):
    """What a process holds at one time: between calls, or among them."""

    is_idle: bool
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
            quiet = _sample(daemon, is_idle=True)
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
        idle, loaded = ([each for each in warm if each.is_idle == is_idle] for is_idle in (True, False))
        slope, loaded_slope = _slope(idle), _slope(_medians(loaded))
        rss = [round(each.rss_kib / 1024, 1) for each in (quiet, *idle[9::10], end)]
        print(f"\nsoak of {_SECONDS:g} s: {dict(load.counts)}; RSS {rss} MiB")
        print(f"RSS between calls {slope}, among calls {loaded_slope}, from {len(idle)} pauses")
        print(f"{quiet} {end}; samples in {home.parent / 'samples.csv'}")
    assert end.descriptors <= quiet.descriptors + 10
    # Each client has one request at a time, and a pool keeps the threads that it once had.
    assert end.threads <= quiet.threads + 24
    assert end.rss_kib - quiet.rss_kib < 80 * 1024
    if _SECONDS >= 3_600:
        earlier, later = idle[: len(idle) // 2], idle[len(idle) // 2 :]
        assert _median_descriptors(later) <= _median_descriptors(earlier) + 3
        assert not slope.is_growth, slope
        assert not loaded_slope.is_growth, loaded_slope
        assert slope.error < _MOST_ERROR_MIB_PER_H, slope


@pytest.mark.parametrize(("mib_per_h", "is_growth"), [(0.0, False), (1.0, False), (-3.0, False), (4.0, True)])
def test_a_leak_is_told_from_noise(mib_per_h: float, is_growth: bool) -> None:
    """By a hundred hours with the samples and the noise that there are between calls."""
    found = [_slope(_made_up(mib_per_h, seed)) for seed in range(100)]
    assert sum(each.is_growth == is_growth for each in found) >= 90
    assert max(each.error for each in found) < _MOST_ERROR_MIB_PER_H
    assert abs(statistics.mean(each.mib_per_h for each in found) - mib_per_h) < 0.2


def _made_up(mib_per_h: float, seed: int) -> list[Sample]:
    noise = random.Random(seed)
    return [
        Sample(True, at_s, int(1_024 * (60 + mib_per_h * at_s / 3_600 + noise.gauss(0, 0.35))), 30, 17)
        for at_s in range(1_800, 3_420, 49)
    ]


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


def _sample(daemon: Daemon, *, is_idle: bool) -> Sample:
    folder = Path(f"/proc/{daemon.process.pid}")
    fields = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    rss_kib, threads = int(fields["VmRSS"].split()[0]), int(fields["Threads"])
    return Sample(is_idle, time.monotonic(), rss_kib, len(list((folder / "fd").iterdir())), threads)


async def _watch(daemon: Daemon, load: MixedLoad, samples: list[Sample], file: TextIO) -> None:
    """Sample the daemon among its calls, and then at rest: what it keeps is smaller than what its calls hold."""
    for number in itertools.count(1):
        if number % _BUSY_SAMPLES:
            await asyncio.sleep(_BUSY_S / _BUSY_SAMPLES)
            samples.append(_sample(daemon, is_idle=False))
        else:
            async with load.paused():
                await asyncio.sleep(_REST_S)
                samples.append(_sample(daemon, is_idle=True))
        print(*samples[-1], sep=",", file=file, flush=True)


async def _settled(daemon: Daemon, quiet: Sample) -> Sample:
    """What the daemon holds when its clients are gone: connections and sessions end a little later."""
    most, deadline = quiet.descriptors + 10, time.monotonic() + 15
    while (sample := _sample(daemon, is_idle=True)).descriptors > most and time.monotonic() < deadline:
        await asyncio.sleep(0.2)
    return sample


def _median_descriptors(samples: list[Sample]) -> float:
    return statistics.median(each.descriptors for each in samples)


class Slope(NamedTuple):
    """How fast the memory grows, by least squares, and the standard error of that."""

    mib_per_h: float
    error: float

    @property
    def is_growth(self) -> bool:
        """Whether it is more than we promise, and that not by chance."""
        return self.mib_per_h - 2 * self.error >= _MOST_SLOPE_MIB_PER_H

    def __str__(self) -> str:
        return f"{self.mib_per_h:.2f} ± {self.error:.2f} MiB/h"


def _medians(loaded: list[Sample]) -> list[Sample]:
    """The sample in the middle of each stretch between two pauses: a call under way holds more or less by chance."""
    stretches: list[list[Sample]] = []
    for sample in loaded:
        if not stretches or sample.at_s - stretches[-1][-1].at_s > _REST_S:
            stretches.append([])
        stretches[-1].append(sample)
    return [sorted(each, key=lambda sample: sample.rss_kib)[len(each) // 2] for each in stretches]


def _slope(samples: list[Sample]) -> Slope:
    """With fewer than four samples there is none.

    A sample is like the one before it: what is kept changes in minutes. So they tell less than as many that know
    nothing of each other, and the error is larger by what the correlation of neighbours makes of it.
    """
    if len(samples) < 4:
        return Slope(0.0, 0.0)
    hours, mib = [each.at_s / 3_600 for each in samples], [each.rss_kib / 1_024 for each in samples]
    slope, intercept = statistics.linear_regression(hours, mib)
    rest = [y - slope * x - intercept for x, y in zip(hours, mib, strict=True)]
    squares = sum(each**2 for each in rest)
    error = (squares / (len(rest) - 2) / (statistics.pvariance(hours) * len(hours))) ** 0.5
    alike = min(max(sum(a * b for a, b in itertools.pairwise(rest)) / squares, 0.0), 0.9) if squares else 0.0
    return Slope(slope, error * ((1 + alike) / (1 - alike)) ** 0.5)
