"""The log of a session: offsets that never move, numbers that order, holes that are told."""

from __future__ import annotations

import itertools
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.sessions import output_log as logs
from tools.sessions.output_log import Lost, OutputLog, Piece
from tools.sessions.spool import HEAD_BYTES

_MIB = 1024 * 1024


@pytest.fixture(params=["in place", "in several files"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OutputLog]:
    made = OutputLog("s1", tmp_path / "s1.log", 8 * _MIB, frees_in_place=request.param == "in place")
    numbers = itertools.count(1)
    made.publish(lambda: next(numbers))
    yield made
    made.remove()


def _fill(log: OutputLog, size: int) -> bytes:
    """Print so much, as a child does, and let go what must go. What was printed."""
    blocks = [bytes([65 + index % 26]) * 65_536 for index in range(size // 65_536)]
    for block in blocks:
        log.append("stdout", block)
        if to := log.excess():
            log.free(to)
    return b"".join(blocks)


def test_pieces_keep_their_stream_their_offset_and_their_order(log: OutputLog) -> None:
    log.append("stdout", b"one")
    log.append("stderr", b"two")
    assert log.piece_at(0) == Piece(1, 0, "stdout", b"one")
    assert log.piece_at(3) == Piece(2, 3, "stderr", b"two")
    assert log.piece_at(4) == Piece(2, 4, "stderr", b"wo")
    assert log.piece_at(6) is None


def test_output_that_left_memory_is_read_from_the_file(log: OutputLog) -> None:
    written = _fill(log, 2 * _MIB)
    assert log.path.read_bytes() == written
    first = log.piece_at(0)
    assert isinstance(first, Piece)
    assert first.data == written[:65_536]


def test_a_full_spool_keeps_the_first_megabyte_and_the_newest(log: OutputLog) -> None:
    written = _fill(log, 40 * _MIB)
    kept, place, lost = b"", 0, []
    while (found := log.piece_at(place)) is not None:
        if isinstance(found, Lost):
            lost.append(found)
            place = found.end
            continue
        assert found.data == written[place : found.end]
        kept += found.data
        place = found.end
    assert [gone.offset for gone in lost] == [HEAD_BYTES]
    assert len(kept) + lost[0].end - lost[0].offset == len(written)
    assert 6 * _MIB <= len(kept) <= 9 * _MIB


def test_what_is_copied_whole_says_how_much_is_gone(log: OutputLog) -> None:
    written = _fill(log, 40 * _MIB)
    head, note, tail = re.split(
        rb"\n\[\xe2\x80\xa6 (\d+) bytes are gone \xe2\x80\xa6]\n", b"".join(log.stored_output())
    )
    assert (written[: len(head)], written[-len(tail) :]) == (head, tail)
    assert len(head) + int(note) + len(tail) == len(written)


def test_a_number_leads_back_to_the_place_behind_its_piece(log: OutputLog) -> None:
    for text in (b"a", b"bb", b"ccc"):
        log.append("stdout", text)
    assert [log.offset_after(number) for number in (0, 1, 2, 3, 9)] == [0, 1, 3, 6, 6]


def test_a_number_whose_piece_is_gone_leads_into_the_hole(log: OutputLog) -> None:
    _fill(log, 40 * _MIB)
    # The 320th piece ended at 20 MiB.
    place = log.offset_after(320)
    found = log.piece_at(place)
    assert isinstance(found, Lost)
    assert 18 * _MIB <= place <= 20 * _MIB
    assert found.end > 30 * _MIB


def test_a_log_that_becomes_public_late_is_numbered_from_its_first_piece(tmp_path: Path) -> None:
    log = OutputLog("s1", tmp_path / "s1.log", 8 * _MIB)
    log.append("stdout", b"before")
    numbers = itertools.count(70)
    log.publish(lambda: next(numbers))
    log.append("stdout", b"after")
    assert [log.next_number(0), log.next_number(6)] == [70, 71]


def test_very_many_small_pieces_cost_bounded_memory(log: OutputLog) -> None:
    for _ in range(logs.MOST_PIECES + 1_000):
        log.append("stdout", b"x")
    assert len(log._starts) <= logs.MOST_PIECES
    end_of_head = log.piece_at(logs.MOST_PIECES // 8)
    assert isinstance(end_of_head, Lost)
    assert log.piece_at(log.end - 1) is not None


def test_pieces_of_one_byte_in_memory_cost_bounded_memory(log: OutputLog) -> None:
    """They were counted by their bytes alone, and a megabyte of them cost 150."""
    log.start_spool()
    tracemalloc.start()
    for _ in range(60_000):
        log.append("stdout", b"%c" % 120)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 3 * _MIB


def test_a_file_that_takes_no_more_leaves_the_newest_in_memory(log: OutputLog) -> None:
    log.start_spool()
    assert log.spool is not None
    log.append("stdout", b"first")
    log.spool.is_full = True
    for _ in range(32):
        log.append("stdout", b"y" * 65_536)
    assert log.piece_at(0) == Piece(1, 0, "stdout", b"first")
    gone = log.piece_at(5)
    assert isinstance(gone, Lost)
    assert isinstance(log.piece_at(gone.end), Piece)


def test_what_is_copied_whole_has_what_a_full_file_did_not_take(log: OutputLog) -> None:
    """It was as long as the file, and so of no byte, though all of it was in memory."""
    log.start_spool()
    assert log.spool is not None
    log.append("stdout", b"first")
    log.spool.is_full = True
    log.append("stderr", b"second")
    log.append("stdout", b"third")
    assert log.complete_file() is None
    assert b"".join(log.stored_output()) == b"firstsecondthird"
    for _ in range(32):
        log.append("stdout", b"y" * 65_536)
    first, note, newest = re.split(
        rb"\n\[\xe2\x80\xa6 (\d+) bytes are gone \xe2\x80\xa6]\n", b"".join(log.stored_output())
    )
    assert (first, set(newest)) == (b"first", set(b"y"))
    assert len(first) + int(note) + len(newest) == log.end


@pytest.mark.parametrize("size", [0, 200_000, 40 * _MIB])
def test_the_next_daemon_reads_the_same_output_with_the_same_hole(log: OutputLog, size: int) -> None:
    log.start_spool()
    log.append("stdout", "é".encode() * 40_000)
    _fill(log, size)
    log.append("stdout", b"the end\n")
    log.seal()
    again = OutputLog.reopen("s1", log.path)
    assert again.end == log.end
    assert (again.kept_from > 0) is (log.kept_from > 0)
    # A block that is freed ends within a piece; the rest of that piece is still there.
    assert log.kept_from - _MIB <= again.kept_from <= log.kept_from
    for offset in (0, 1, 65_537, log.kept_from, log.end - 300_000, log.end - 8):
        if offset >= 0:
            assert again.text(offset, 200_000) == log.text(offset, 200_000)
    if log.kept_from:
        assert again.text(2 * _MIB, 9)[1] == again.kept_from
