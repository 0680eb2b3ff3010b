"""One daemon with a public name for all tests of a file that change nothing of what others see."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.daemon import Daemon
from tests.support.oauth import OAuthPeer, public_daemon


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with public_daemon(tmp_path_factory.mktemp("home")) as daemon:
        yield daemon


@pytest.fixture
async def peer(public: Daemon) -> AsyncIterator[OAuthPeer]:
    async with OAuthPeer(public) as peer:
        yield peer
