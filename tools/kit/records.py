"""Two lighter kinds of dataclass: `record` for values that nobody changes, `mutable` for state.

For the type checker a record is a frozen dataclass, and `dataclasses.fields`, `replace` and `asdict` work with it. But
`dataclass` generates and compiles comparison, hash and repr for every class, which with eighty classes was half of the
start time of our own code; records share one implementation. And nothing stops a change at run time, because a really
frozen instance takes three times as long to create. The few classes that are compared or hashed in everyday work are
frozen dataclasses of the standard library or named tuples.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[_T]) -> type[_T]:
    """Make a class a record. Two records are equal if they have the same class and equal fields."""
    for name, method in (("__eq__", _is_equal), ("__hash__", _hash), ("__repr__", _repr)):
        if name not in cls.__dict__:
            setattr(cls, name, method)
    return mutable(cls)


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def mutable(cls: type[_T]) -> type[_T]:
    """Make a class a dataclass whose instances may change. An instance is equal only to itself."""
    # `dataclass` writes the signature into a missing docstring, and to find that takes half of its time.
    cls.__doc__ = cls.__doc__ or cls.__name__
    return dataclass(slots=True, eq=False, repr=False)(cls)


def _is_equal(self: Any, other: object) -> bool:
    return type(other) is type(self) and _values(other) == _values(self)


def _hash(self: Any) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({values})"


def _values(instance: Any) -> tuple[Any, ...]:
    return tuple([getattr(instance, name) for name in instance.__match_args__])
