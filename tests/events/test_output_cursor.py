"""A reader's places in the output of sessions, against a log that lets go whatever its readers have passed."""

from __future__ import annotations

import itertools
from pathlib import Path

from mcp_agent.events.output_cursor import OutputCursor
from tools.sessions.output_log import OutputLog, PieceSpan

_MIB = 1024 * 1024


def test_what_a_reader_takes_can_be_read_though_moving_on_lets_it_go(tmp_path: Path) -> None:
    log = OutputLog("s1", tmp_path / "s1.log", 8 * _MIB)
    numbers = itertools.count(1)
    log.publish(lambda: next(numbers))
    log.start_spool()
    written = [bytes([65 + index % 26]) * 65_536 for index in range(256)]
    for block in written:
        log.append("stdout", block)
    cursor = OutputCursor()
    # As the daemon does while a command waits for its cursor.
    cursor.on_move = lambda moved: moved.free(cursor.place(log))
    cursor.add(log, 0)
    taken: list[bytes] = []
    while part := [log.data(told) for _, told in cursor.take(128 * 1024) if isinstance(told, PieceSpan)]:
        taken += part
    assert taken == written
    assert log.kept_from > 8 * _MIB
    log.remove()
