"""The part of sse-starlette that our writer replaces: a change of it is a change for us to read."""

from __future__ import annotations

import hashlib
import inspect
import tomllib
from pathlib import Path

from sse_starlette import EventSourceResponse

_ROOT = Path(__file__).parents[2]
_KNOWN_SOURCE = "d1fdbb7b03629f6f1c8610c23d89fe3d22cfa0a778f74398f9b9bbd48f0baa99"


def test_the_method_that_our_writer_overrides_is_the_one_that_we_know() -> None:
    source = inspect.getsource(EventSourceResponse._stream_response)
    assert hashlib.sha256(source.encode()).hexdigest() == _KNOWN_SOURCE, (
        "EventSourceResponse._stream_response has changed: compare it with our override, then note its new hash here"
    )


def test_the_minor_version_is_pinned() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    assert [each for each in project["dependencies"] if each.startswith("sse-starlette")] == ["sse-starlette>=3.7,<3.8"]
