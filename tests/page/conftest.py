"""One browser for all tests of a file: starting one takes seconds. And the terminal component, fetched once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from mcp_agent.page import terminal_component
from tests.support.browser import chromium


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


@pytest.fixture(scope="session", autouse=True)
def component() -> None:
    terminal_component.fetch()
