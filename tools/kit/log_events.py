"""One way to log: a named event with its data, which the host writes as a line of JSON or as text."""

from __future__ import annotations

import logging
from typing import Any


def event(
    logger: logging.Logger, level: int, name: str, *, request_id: str | None = None, exc: bool = False, **data: Any
) -> None:
    """Log the event `name` with its data. Never put secrets or file contents into `data`."""
    if logger.isEnabledFor(level):
        logger.log(level, name, extra={"request_id": request_id, "data": data}, exc_info=exc)
