"""Classes of named fields: values that nobody changes, at a third of the price of a frozen dataclass, and states.

To the type checker a record is a frozen dataclass, and `dataclasses.fields`, `replace` and `asdict` take it for one.
What is left out is the code that a dataclass writes and compiles anew for every class: to compare, to hash, to show
itself, and to refuse a change while running. With eighty such classes that was half of our own share of the time to
start, and a frozen instance takes three times as long to make.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[_T]) -> type[_T]:
    """Make a record of a class with annotated fields. Two are equal if they are of one class and all fields are."""
    for name, method in (("__eq__", _is_equal), ("__hash__", _hash), ("__repr__", _repr)):
        if name not in cls.__dict__:
            setattr(cls, name, method)
    return dataclass(slots=True, eq=False, repr=False)(cls)


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def mutable(cls: type[_T]) -> type[_T]:
    """Make of a class with annotated fields one whose instances change. Each is equal to itself alone."""
    return dataclass(slots=True, eq=False, repr=False)(cls)


def _is_equal(self: Any, other: object) -> bool:
    return type(other) is type(self) and _values(other) == _values(self)


def _hash(self: Any) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({shown})"


def _values(instance: Any) -> tuple[Any, ...]:
    """What makes two records different."""
    return tuple(getattr(instance, each.name) for each in fields(instance) if each.compare)
