"""What a tool gives back: a frozen dataclass that is one JSON object, and renders as text for a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

# One piece of a result as MCP has it: text, image, audio, a link to a resource or a resource itself.
Block = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result(ABC):
    """Base of every result. A field that is None is absent from the object.

    A field whose name is a word of Python ends in an underscore here and not in the object.
    """

    def as_object(self) -> dict[str, Any]:
        return {
            name: value for attribute, name in _names(type(self)) if (value := getattr(self, attribute)) is not None
        }

    @abstractmethod
    def render(self) -> str:
        """The result as a model reads it best: a one-line header, then the raw text, unescaped."""

    @property
    def is_owed_whole(self) -> bool:
        """Whether a program sent this text to get it back: on wires for programs it is never cut."""
        return False

    def blocks(self) -> Sequence[Block] | None:
        """What an MCP client is sent instead of the object or its rendering; None for a result that is one object.

        For results that no text can hold, such as images, and for those that another server wrote.
        """
        return None


@cache
def _names(result: type[Result]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.name.removesuffix("_")) for field in fields(result))
