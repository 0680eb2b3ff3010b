"""The argument that asks for pruned output. Some tools declare it; to others the host adds it, unknown to them."""

from __future__ import annotations

from typing import Annotated

from tools.kit.params import Field

FOCUS = "context_focus_question"
# Tools whose output the host prunes when asked, where the profile allows it.
FOCUSABLE = frozenset(("fs_read", "fs_read_range", "fs_grep", "shell_exec", "shell_send_input"))

FocusQuestion = Annotated[
    str | None,
    Field(
        description="Keep only the lines that answer this; gaps are marked.",
        min_length=1,
        max_length=1_000,
        is_trimmed=True,
    ),
]
