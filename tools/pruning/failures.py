"""The failures of `read`, `bash` and `grep`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from tools.files.confined_root import ConfinedRoot, NotThere, OutsideRoot
from tools.kit.errors import Failed


def failure(
    tool: str,
    code: str,
    message: str,
    *,
    exit_code: int | None = None,
    timeout_ms: int | None = None,
    rule: str | None = None,
    printed: Mapping[str, str] = MappingProxyType({}),
) -> Failed:
    """A failure of one of these tools, with what the command printed. The host says what was pruned of it."""
    return Failed(
        code, message, fields={"tool": tool, **printed}, exit_code=exit_code, timeout_ms=timeout_ms, rule=rule
    )


@contextlib.contextmanager
def open_confined(
    root: ConfinedRoot, path: str, problem: Callable[[str], Failed]
) -> Iterator[tuple[int, os.stat_result]]:
    """Open what `path` leads to inside the root, until the block ends. Raises what `problem` makes of an error."""
    with contextlib.ExitStack() as opened:
        try:
            found = opened.enter_context(root.open(path))
        except (OutsideRoot, NotThere) as error:
            raise problem(str(error)) from error
        except OSError as error:
            raise problem(f"{path}: {(error.strerror or str(error)).lower()}") from error
        yield found
