"""The source type that the suffix of a file name stands for. For any other suffix the engine looks at the text."""

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


def source_type_of(path: str) -> SourceType | None:
    """The source type of a path by its suffix; None if the suffix leaves doubt."""
    _, dot, suffix = path.rpartition(".")
    return _KINDS.get(suffix.lower()) if dot else None
