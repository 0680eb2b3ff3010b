"""What the name of a file says its text is. Only names that leave no doubt are here: any other text is looked at."""

from __future__ import annotations

from tools.pruning.engine import SourceType

_SUFFIXES: dict[SourceType, str] = {
    "code": """
    bash c cc clj cljs cpp cs cxx dart erl ex exs go groovy h hh hpp hs java jl js jsx kt kts lua mjs ml php pl py pyi
    rb rs scala sh swift ts tsx zig
    """,
    "docs": "adoc markdown md rst",
    "logs": "log",
}
_KINDS = {suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}


def named_kind(path: str) -> SourceType | None:
    """The kind that the ending of a path stands for; None if it stands for none."""
    _, dot, suffix = path.rpartition(".")
    return _KINDS.get(suffix.lower()) if dot else None
