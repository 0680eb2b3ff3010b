"""What a tool gives back: a frozen dataclass that is one JSON object, and renders as text for a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Result(ABC):
    """Base of every result. A field that is None is absent from the object."""

    def as_object(self) -> dict[str, Any]:
        pairs = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in pairs if value is not None}

    @abstractmethod
    def render(self) -> str:
        """The result as a model reads it best: a one-line header, then the raw text, unescaped."""
