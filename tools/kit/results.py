"""What a tool gives back: a frozen dataclass that is one JSON object, and renders as text for a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, NamedTuple

from tools.kit.focus import PruningMetadata
from tools.kit.records import record
from tools.kit.summaries import Item, any_item

# One piece of a result as MCP has it: text, image, audio, a link to a resource or a resource itself.
Block = Mapping[str, Any]


class Stretch(NamedTuple):
    """Bytes of an artifact, in UTF-8."""

    reference: str
    start: int
    end: int


@record
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

    def blocks(self) -> Sequence[Block] | None:
        """What an MCP client is sent instead of the object or its rendering; None for a result that is one object.

        For results that no text can hold, such as images, and for those that another server wrote.
        """
        return None

    @property
    def exit_status(self) -> int | None:
        """The exit code of the command that was run, if one was and is over. The audit log keeps it."""
        return None

    @property
    def pruning_metadata(self) -> PruningMetadata | None:
        """What came of a focus question; None where none could be asked."""
        return None

    @classmethod
    def line(cls, entry: Any) -> str:
        """An element of a list as one line, for a pruner; its line breaks become spaces."""
        item = cls.item(entry)
        return f"{item.id} {item.label}".strip()

    # What follows is for profiles that keep results short.

    def summary(self) -> str:
        """What came of the call, in a line of at most 100 characters; a longer one is cut."""
        return self.render().partition("\n")[0]

    @property
    def succeeded(self) -> bool:
        """Whether what was asked for was done; False for a command that ended badly."""
        return True

    @property
    def listed(self) -> str | None:
        """The field with the list that was asked for, if the result is one."""
        return None

    @classmethod
    def item(cls, entry: Any) -> Item:
        """An element of the list in a line."""
        return any_item(entry)

    @property
    def asked_text(self) -> str | None:
        """The field with text that was asked for by name and place, and so is given as far as a result can be large."""
        return None

    @property
    def stretch(self) -> Stretch | None:
        """Where that text is kept already."""
        return None

    @property
    def kept_as(self) -> str | None:
        """The artifact that has all of it, where the tool has kept one."""
        return None

    @property
    def is_text(self) -> bool:
        """Whether its rendering says all of it: then that is what is kept when it is cut, and not the object."""
        return False


@cache
def _names(result: type[Result]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.name.removesuffix("_")) for field in fields(result))
