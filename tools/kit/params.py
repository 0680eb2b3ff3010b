"""The parameters of a tool: read from its signature, written as JSON Schema, and used to check the arguments of a call.

Hand-written because no validator does what callers are promised: report every problem of a call at once, each with
the code that zod 3 would give it; treat `null` for an optional argument as absent; and cost nothing at the start of the
daemon. It supports the types that our tools use: `str`, `int`, `float`, `bool`, `Literal` of strings, `list[…]`,
`dict[str, str]`, and a struct for a nested object.
"""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from msgspec import NODEFAULT, Struct

from tools.kit.errors import InvalidParams
from tools.kit.spelling import nearest

# What other programs call the argument for a command, for the folder to run it in, and for a file or folder.
COMMAND_ALIASES = ("cmd", "command_line", "script")
INPUT_ALIASES = ("text", "data", "chars", "keys")
SESSION_ALIASES = ("id", "session", "task_id", "bash_id", "shell_id", "process_id")
CWD_ALIASES = ("workdir", "working_directory", "working_dir", "directory", "dir", "folder")
PATH_ALIASES = (
    *("path", "file_path", "filepath", "file", "filename", "target_file", "absolute_path"),
    *("base", "directory", "dir", "folder", "dir_path", "directory_path", "target_directory"),
)
# A message says so much: looking for what an unknown name may mean takes a while.
_MOST_ADVICE = 50


class Derived(NamedTuple):
    """Arguments made of others, whose names are in `used`. `note` says how, if the result shall say it."""

    values: Mapping[str, Any]
    used: Collection[str]
    note: str | None = None


class Field(NamedTuple):
    """What a caller should put into one argument. Goes into `Annotated[type, Field(...)]`."""

    description: str = ""
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    # A string that people also write as a number, such as a signal.
    takes_numbers: bool = False
    # False for bounds that are only in the schema: the tool itself handles values outside them.
    is_enforced: bool = True
    # White space at both ends is ignored when the length is checked.
    is_trimmed: bool = False
    # The audit log may keep this text, such as a path; of any other text it keeps only the length.
    audited: bool = False
    # A command line: the audit log keeps its first word, the program.
    is_command: bool = False
    # How much the caller wants to be given: a result is as large as it says, up to the limit of a message.
    is_size: bool = False
    # A path of a file or folder.
    is_path: bool = False
    # Names that other programs have for it. They are accepted where the call is not strict, and not in the schema.
    aliases: tuple[str, ...] = ()
    # Not in the schema and not for strict callers: it is what the habits of other programs become (`habits.py`).
    is_hidden: bool = False
    # The hidden argument that may be there in its place.
    replaced_by: str = ""
    # Makes a missing argument of those that the tool does not know; None if they do not say it.
    derive: Callable[[Mapping[str, Any]], Derived | None] | None = None

    @classmethod
    def of_path(cls, description: str, aliases: tuple[str, ...] = PATH_ALIASES, min_length: int | None = None) -> Field:
        """For the path of a file or folder."""
        return cls(description, audited=True, is_path=True, aliases=aliases, min_length=min_length)


class Issue(NamedTuple):
    """One problem of one argument. `advice` is for the reader; `code` is that of zod 3."""

    path: str
    code: str
    advice: str

    def as_object(self) -> dict[str, str]:
        # The message equals the code: wording may change between releases, the code may not.
        return {"path": _join("arguments", self.path), "code": self.code, "message": self.code}


class Parameter(NamedTuple):
    """One parameter. `keyword` is its name in Python, with an underscore at the end if the name is a Python keyword."""

    name: str
    keyword: str
    kind: ParamKind
    field: Field
    required: bool
    default: Any
    # Whether the field has a bound that is checked here.
    is_bounded: bool = False

    def schema(self) -> dict[str, Any]:
        schema = self.kind.schema()
        if self.field.description:
            schema["description"] = self.field.description
        if not self.required and self.default is not None:
            schema["default"] = self.default
        for key, value in (
            ("minimum", self.field.minimum),
            ("maximum", self.field.maximum),
            ("minItems" if isinstance(self.kind, ListOf) else "minLength", self.field.min_length),
            ("maxItems" if isinstance(self.kind, ListOf) else "maxLength", self.field.max_length),
        ):
            if value is not None:
                schema[key] = value
        return schema

    def check(self, value: Any, path: str, issues: list[Issue]) -> Any:
        before = len(issues)
        if self.field.takes_numbers and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        checked = self.kind.check(value, path, issues)
        if self.is_bounded and len(issues) == before:
            issues.extend(self._out_of_range(checked, path))
        return checked

    def _out_of_range(self, value: Any, path: str) -> Iterator[Issue]:
        field = self.field
        if field.is_trimmed and isinstance(value, str):
            value = value.strip()
        if isinstance(value, str | list):
            noun = "character" if isinstance(value, str) else "element"
            if field.min_length is not None and len(value) < field.min_length:
                yield Issue(path, "too_small", f"{path} {_least(field.min_length, noun)}")
            if field.max_length is not None and len(value) > field.max_length:
                yield Issue(path, "too_big", f"{path} may have at most {field.max_length} {noun}s")
        elif isinstance(value, int | float):
            if field.minimum is not None and value < field.minimum:
                yield Issue(path, "too_small", f"{path} is {value} and must be at least {field.minimum}")
            if field.maximum is not None and value > field.maximum:
                yield Issue(path, "too_big", f"{path} is {value} and may be at most {field.maximum}")


class ParamKind(typing.Protocol):
    """One type of argument: its JSON Schema, and how a value is checked."""

    def schema(self) -> dict[str, Any]: ...

    def check(self, value: Any, path: str, issues: list[Issue]) -> Any:
        """Return the converted value and add problems to `issues`."""


class Parameters:
    """All parameters of one tool."""

    def __init__(self, parameters: tuple[Parameter, ...]) -> None:
        self.by_name = {parameter.name: parameter for parameter in parameters}
        # The name of the parameter that each alias stands for.
        self.aliases = {
            alias: parameter.name
            for parameter in parameters
            for alias in parameter.field.aliases
            if alias not in self.by_name
        }
        self.path_keywords = tuple(parameter.keyword for parameter in parameters if parameter.field.is_path)
        # The declaration of each parameter, also by its aliases.
        self.fields = {parameter.name: parameter.field for parameter in parameters}
        self.fields |= {alias: self.fields[name] for alias, name in self.aliases.items()}

    @classmethod
    def of_function(cls, function: Callable[..., Any]) -> Parameters:
        """The keyword-only parameters of `function`; the context before them is not an argument of the call."""
        hints = typing.get_type_hints(function, include_extras=True)
        return cls(
            tuple(
                _parameter(name, hints[name], parameter.default)
                for name, parameter in inspect.signature(function).parameters.items()
                if parameter.kind is inspect.Parameter.KEYWORD_ONLY
            )
        )

    def with_parameter(self, name: str, hint: Any) -> Parameters:
        """These parameters, and one more that is optional."""
        return Parameters((*self.by_name.values(), _parameter(name, hint, None)))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.by_name)

    @cached_property
    def public(self) -> Parameters:
        """The parameters that a schema has. Every call asks for them, and to make them takes 60 µs."""
        return Parameters(tuple(each for each in self.by_name.values() if not each.field.is_hidden))

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: parameter.schema() for name, parameter in self.public.by_name.items()},
        }
        required = [name for name, parameter in self.public.by_name.items() if parameter.required]
        if required:
            schema["required"] = required
        schema["additionalProperties"] = False
        return schema

    def check(self, arguments: Mapping[str, Any], path: str, issues: list[Issue]) -> dict[str, Any]:
        """Return every parameter with its value or default, and add problems to `issues`."""
        checked: dict[str, Any] = {}
        for name, parameter in self.by_name.items():
            value = arguments.get(name)
            if value is not None:
                checked[parameter.keyword] = parameter.check(value, f"{path}.{name}" if path else name, issues)
            elif parameter.required and arguments.get(parameter.field.replaced_by) is None:
                where = _join(path, name)
                issues.append(Issue(where, "invalid_type", f"{where} is missing: {_expectation(parameter)}"))
            else:
                checked[parameter.keyword] = parameter.default
        if not arguments.keys() <= self.by_name.keys():
            unknown = [name for name in arguments if name not in self.by_name]
            has_many = len(issues) >= _MOST_ADVICE
            advice = [self._advice_on_unknown(name, guesses=not has_many) for name in unknown[:_MOST_ADVICE]]
            advice += [f"and {len(unknown) - _MOST_ADVICE} more"] if len(unknown) > _MOST_ADVICE else []
            issues.append(Issue(path, "unrecognized_keys", "; ".join(advice)))
        return checked

    def _advice_on_unknown(self, name: str, *, guesses: bool) -> str:
        near = self.aliases.get(name)
        if near is None and guesses:
            near = nearest(name, self.public.by_name)
        known = f"did you mean {near}?" if near else f"it takes {', '.join(self.public.by_name) or 'no arguments'}"
        return f"there is no argument {name[:60]!r} ({known})"

    def parse(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments for the function. Raises InvalidParams with every problem."""
        issues: list[Issue] = []
        checked = self.check(arguments, "", issues)
        if issues:
            raise invalid_params(issues)
        return checked


def invalid_params(issues: list[Issue]) -> InvalidParams:
    """The error that reports all `issues` at once."""
    issues = sorted(issues, key=lambda issue: (issue.path, issue.code))
    named = [issue.advice for issue in issues[:_MOST_ADVICE]]
    message = "; ".join([*named, *([f"and {len(issues) - _MOST_ADVICE} more"] if len(issues) > _MOST_ADVICE else [])])
    return InvalidParams(message, issues=[issue.as_object() for issue in issues])


class Scalar(NamedTuple):
    type: type
    json_type: str

    def schema(self) -> dict[str, Any]:
        return {"type": self.json_type}

    def check(self, value: Any, path: str, issues: list[Issue]) -> Any:
        if type(value) is self.type and self.type in (str, bool):
            return value
        if _is_number(value):
            if self.type is float:
                return float(value)
            if self.type is int and float(value).is_integer():
                return int(value)
        issues.append(
            Issue(path, "invalid_type", f"{path} must be {_with_article(self.json_type)}, not {_describe(value)}")
        )
        return value


class Choice(NamedTuple):
    options: tuple[str, ...]

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.options)}

    def check(self, value: Any, path: str, issues: list[Issue]) -> Any:
        if len(self.options) == 1:
            if value != self.options[0]:
                issues.append(Issue(path, "invalid_literal", f"{path} can only be {self.options[0]!r}"))
        elif not isinstance(value, str):
            issues.append(Issue(path, "invalid_type", f"{path} must be a string, not {_describe(value)}"))
        elif value not in self.options:
            listed = ", ".join(self.options)
            issues.append(Issue(path, "invalid_enum_value", f"{path} is {value[:60]!r} and must be one of {listed}"))
        return value


class ListOf(NamedTuple):
    element: Parameter

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.element.schema()}

    def check(self, value: Any, path: str, issues: list[Issue]) -> Any:
        if not isinstance(value, list):
            issues.append(Issue(path, "invalid_type", f"{path} must be an array, not {_describe(value)}"))
            return value
        return [self.element.check(item, f"{path}.{index}", issues) for index, item in enumerate(value)]


class StringMap:
    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": "string"}}

    def check(self, value: Any, path: str, issues: list[Issue]) -> Any:
        if not isinstance(value, dict):
            issues.append(Issue(path, "invalid_type", f"{path} must be an object, not {_describe(value)}"))
            return value
        for key, item in value.items():
            if not isinstance(item, str):
                where = f"{path}.{key}"
                issues.append(Issue(where, "invalid_type", f"{where} must be a string, not {_describe(item)}"))
        return value


class RecordOf(NamedTuple):
    type: type
    parameters: Parameters

    def schema(self) -> dict[str, Any]:
        return self.parameters.schema()

    def check(self, value: Any, path: str, issues: list[Issue]) -> Any:
        if not isinstance(value, dict):
            issues.append(Issue(path, "invalid_type", f"{path} must be an object, not {_describe(value)}"))
            return value
        before = len(issues)
        checked = self.parameters.check(value, path, issues)
        return self.type(**checked) if len(issues) == before else value


def _parameter(name: str, hint: Any, default: Any) -> Parameter:
    kind, field = _read_hint(hint)
    required = default is inspect.Parameter.empty or default is NODEFAULT
    bounds = (field.minimum, field.maximum, field.min_length, field.max_length)
    is_bounded = field.is_enforced and any(bound is not None for bound in bounds)
    return Parameter(name.removesuffix("_"), name, kind, field, required, None if required else default, is_bounded)


def _read_hint(hint: Any) -> tuple[ParamKind, Field]:
    field = Field()
    if get_origin(hint) is Annotated:
        hint, *extras = get_args(hint)
        field = next((extra for extra in extras if isinstance(extra, Field)), field)
    if get_origin(hint) in (types.UnionType, typing.Union):
        present = [option for option in get_args(hint) if option is not type(None)]
        if len(present) != 1:
            raise TypeError(f"an argument may be optional, not one of several types: {hint}")
        kind, inner = _read_hint(present[0])
        return kind, field if field != Field() else inner
    return _kind(hint), field


def _kind(hint: Any) -> ParamKind:
    scalars = {str: "string", int: "integer", float: "number", bool: "boolean"}
    if hint in scalars:
        return Scalar(hint, scalars[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal and all(isinstance(option, str) for option in arguments):
        return Choice(arguments)
    if origin is list:
        return ListOf(_parameter("", arguments[0], NODEFAULT))
    if origin is dict and arguments == (str, str):
        return StringMap()
    if isinstance(hint, type) and issubclass(hint, Struct):
        hints = typing.get_type_hints(hint, include_extras=True)
        names, defaults = hint.__struct_fields__, hint.__struct_defaults__
        given = (*(NODEFAULT,) * (len(names) - len(defaults)), *defaults)
        each = (_parameter(name, hints[name], default) for name, default in zip(names, given, strict=True))
        return RecordOf(hint, Parameters(tuple(each)))
    raise TypeError(f"no argument can have this type: {hint}")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name


def _expectation(parameter: Parameter) -> str:
    return parameter.field.description or f"it must be {_with_article(parameter.kind.schema()['type'])}"


def _least(length: int, noun: str) -> str:
    return "must not be empty" if length == 1 else f"must have at least {length} {noun}s"


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _is_number(value: Any) -> bool:
    """Whether `value` is a number that a float can hold. Larger ones are read differently by different JSON readers."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _describe(value: Any) -> str:
    """A number or boolean itself, and the type of any other JSON value."""
    match value:
        case bool():
            return f"{value!r}".lower()
        case int() | float():
            return f"{value!r}" if _is_number(value) else "a number too large"
        case str():
            return "a string"
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return "null"
