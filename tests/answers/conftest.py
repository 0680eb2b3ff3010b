from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.answers.host import CompactHost, compact_host


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[CompactHost]:
    async with compact_host(tmp_path) as started:
        yield started
