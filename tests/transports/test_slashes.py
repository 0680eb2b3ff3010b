"""A slash at the end of a URL changes nothing: people and clients add one."""

from __future__ import annotations

import pytest

from tests.support.daemon import Daemon
from tests.support.raw import request

_LIST = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/mcp", _LIST),
        ("POST", "/mcp/lean", _LIST),
        ("POST", "/sse", _LIST),
        ("POST", "/mcp/sse", _LIST),
        ("POST", "/rpc", _LIST),
        ("POST", "/tools/fs_list", b'{"path": "/"}'),
        ("GET", "/openapi.json", b""),
        ("GET", "/health", b""),
        ("GET", "/metrics", b""),
        ("GET", "/api/status", b""),
    ],
)
def test_a_slash_at_the_end_changes_nothing(shared_daemon: Daemon, method: str, path: str, body: bytes) -> None:
    headers = {"Accept": "application/json, text/event-stream"} if body else {}
    answers = [request(shared_daemon, method, f"{path}{slash}", body, **headers) for slash in ("", "/", "//")]
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert answers[0].body[:40] == answers[1].body[:40] == answers[2].body[:40]


def test_health_with_a_slash_needs_no_token_either(shared_daemon: Daemon) -> None:
    assert request(shared_daemon, path="/health/", Authorization=None).status == 200
