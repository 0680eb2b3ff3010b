"""Two lighter kinds of dataclass: `record` for values that nobody changes, `mutable` for state.

For the type checker a record is a frozen dataclass, and `dataclasses.fields`, `replace` and `asdict` work with it. But
`dataclass` generates and compiles comparison, hash and repr for every class, which with eighty classes was half of the
start time of our own code; records share one implementation. `__init__` is compiled when the first instance is made:
most processes use few of the classes that they import. And nothing stops a change at run time, because a really
frozen instance takes three times as long to create. The few classes that are compared or hashed in everyday work are
frozen dataclasses of the standard library or named tuples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, TypeVar, cast, dataclass_transform

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
    is_plain = not hasattr(cls, "__post_init__")
    made: Any = dataclass(init=not is_plain, slots=True, eq=False, repr=False)(cls)
    if is_plain and "__init__" not in cls.__dict__:
        made.__init__ = _compile_on_call(made)
    return cast("type[_T]", made)


def _compile_on_call(cls: Any) -> Callable[..., None]:
    """An `__init__` that replaces itself by the one that `dataclass` would have generated."""

    def init(self: Any, *values: Any, **named: Any) -> None:
        described = [
            (each.name, each.type, field(default=each.default, default_factory=each.default_factory))
            for each in fields(cls)
        ]
        namespace = {"__doc__": cls.__doc__}
        made: Any = make_dataclass(cls.__qualname__, described, namespace=namespace, eq=False, repr=False)
        cls.__init__ = made.__init__
        made.__init__(self, *values, **named)

    return init


def _is_equal(self: Any, other: object) -> bool:
    return type(other) is type(self) and _values(other) == _values(self)


def _hash(self: Any) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({values})"


def _values(instance: Any) -> tuple[Any, ...]:
    return tuple([getattr(instance, name) for name in instance.__match_args__])
