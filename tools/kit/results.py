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


class ArtifactRange(NamedTuple):
    """A range of bytes of an artifact, in UTF-8."""

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
        """The exit code of the command that the tool ran, once it has ended. The audit log keeps it."""
        return None

    @property
    def pruning_metadata(self) -> PruningMetadata | None:
        """How the result was pruned; None where the tool takes no focus question."""
        return None

    @classmethod
    def line(cls, entry: Any) -> str:
        """An element of a list as one line, for a pruner; its line breaks become spaces."""
        item = cls.item(entry)
        return f"{item.id} {item.label}".strip()

    # The rest serves compact mode, which keeps results short.

    def summary(self) -> str:
        """The outcome in one line of at most 100 characters; a longer one is cut."""
        return self.render().partition("\n")[0]

    @property
    def succeeded(self) -> bool:
        """False where the tool answered and the work failed, as for a command with a non-zero exit code."""
        return True

    @property
    def list_field(self) -> str | None:
        """The name of the field with the list, for a result that is a list."""
        return None

    @classmethod
    def item(cls, entry: Any) -> Item:
        """An element of that list in one line."""
        return any_item(entry)

    @property
    def text_field(self) -> str | None:
        """The name of the field with text that the caller asked for by name and place: it may fill the whole budget."""
        return None

    @property
    def artifact_range(self) -> ArtifactRange | None:
        """The artifact that this text is a part of, if it is one."""
        return None

    @property
    def artifact_reference(self) -> str | None:
        """The reference of the artifact with the whole result, if the tool has kept one itself."""
        return None

    @property
    def is_text(self) -> bool:
        """Whether the rendering holds all of the result. If so, the rendering is what an artifact of it keeps."""
        return False


@cache
def _names(result: type[Result]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.name.removesuffix("_")) for field in fields(result))
