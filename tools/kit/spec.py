"""How a tool is declared: one function. Its signature is the schema, its docstring is what a model reads.

    @tool("filesystem", effect="read")
    def fs_read(ctx: ToolContext, *, path: Annotated[str, Field(description="…")]) -> FileText:
        \"\"\"Read a text file from its start.\"\"\"

Nothing is registered when a module is imported: `registry.catalog.discover` walks the package and picks up what
the decorator left behind. A `def` runs in a worker thread, an `async def` on the event loop. A tool that is
usually over in microseconds names a test for that (`instant`): calls that pass it run on the loop itself, since
handing work to a thread costs ten times as much as reading a small file.

What the host does with a tool is declared here too, so that it treats every tool alike: `focus` says whether a caller
may ask a question, `Field(audited=True)` the arguments whose text the audit log keeps, and the properties of `Result`
what the host must know to prune and to shorten it.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from tools.kit.errors import InvalidParams
from tools.kit.habits import take_habits
from tools.kit.params import Field, Parameters
from tools.kit.results import FOCUS, KEEP, FocusQuestion, KeepShare, Result
from tools.kit.tolerance import ODD_STARTS, mend, plain_path, show

# Keywords of a schema that only a validator needs, and upper bounds that no model reaches.
_VALIDATOR_KEYS = frozenset(("minLength", "maxLength", "minItems", "maxItems", "additionalProperties"))
_LARGE = 1_000

Effect = Literal["read", "write", "execute"]
# Whether callers may ask the host to prune a result: where the profile allows it, or wherever the tool is. Of a tool
# that always takes a question, every result says what the pruner did.
Focus = Literal["never", "allowed", "always"]


class ChangePreview(NamedTuple):
    """What a call would do to files, before it does: the whole of it, as a unified diff where it is text.

    `seen` is different as soon as one of the files is, and empty for a call that changes nothing.
    """

    diff: str
    seen: str


# The argument that continues a short result. The host adds and handles it; the tool does not see it.
CURSOR = "cursor"
Cursor = Annotated[str | None, Field(description="The nextCursor of an earlier answer, to go on.")]


@dataclass(eq=False, repr=False)
class Tool:
    """One tool, as the catalogue knows it. Nobody changes it.

    What is cached takes 5 µs (a schema) to 240 µs (the parameters) to compute; a call of fs_read takes 45.
    """

    name: str
    category: str
    effect: Effect
    function: Callable[..., Any]
    title: str
    destructive: bool
    idempotent: bool
    deadline_s: float
    instant: Callable[..., bool] | None
    given_schema: Mapping[str, Any] | None
    # Further names it can be called by; they are not listed.
    aliases: tuple[str, ...] = ()
    # What other programs call such a tool, and what to answer to a call of a tool that does not exist.
    known_as: tuple[str, ...] = ()
    hints: Mapping[str, str] = field(default_factory=dict)
    focus: Focus = "never"
    # Whether callers may ask the host to prune. The function itself does not see the question.
    takes_focus: bool = False
    # Whether its results are kept short, and go on where a cursor says.
    takes_cursor: bool = False
    # What a model reads, where it is not the docstring of the function.
    given_description: str = ""
    # All of a description that is cut in the list.
    whole_description: str = ""
    # Further categories that it counts as: a profile must allow it in all of them.
    other_categories: tuple[str, ...] = ()
    # Looks at the parsed arguments before the tool runs, where types do not say it all. Raises InvalidParams.
    check: Callable[..., object] | None = None
    # What a call would write, for the owner to see before. None: nothing is shown but the arguments.
    preview: Callable[..., ChangePreview] | None = None
    # What a call would send to a command that runs; empty if nothing.
    typed: Callable[..., str] | None = None

    @property
    def description(self) -> str:
        return self.given_description or inspect.cleandoc(self.function.__doc__ or "")

    # Made at the first use, as the next one: it takes 0.1 to 0.5 ms, and every call asks for them.
    @cached_property
    def own_parameters(self) -> Parameters:
        """What the function takes; nothing is known of a tool that somebody else describes."""
        return Parameters.of_function(self.function) if self.given_schema is None else Parameters(())

    @cached_property
    def parameters(self) -> Parameters:
        """What callers may pass: the tool's own arguments, and those that the host adds and takes out again."""
        parameters = self.own_parameters
        if self.takes_focus:
            parameters = parameters.with_parameter(FOCUS, FocusQuestion).with_parameter(KEEP, KeepShare)
        return (
            parameters.with_parameter(CURSOR, Cursor) if self.takes_cursor and not self.has_own_cursor else parameters
        )

    # Every list of tools has both schemas of each: 2 to 8 µs to make one, and there are dozens of tools.
    @cached_property
    def input_schema(self) -> dict[str, Any]:
        schema = self.parameters.schema()
        if self.given_schema is None:
            return schema
        added = schema["properties"]
        if not added:
            return dict(self.given_schema)
        return {**self.given_schema, "properties": {**self.given_schema.get("properties", {}), **added}}

    @cached_property
    def listed_schema(self) -> dict[str, Any]:
        """The input schema as a model is shown it: without the bounds that only a validator needs.

        Every conversation pays for the list of tools. A call that breaks a bound is told which.
        """
        return dict(_without_bounds(self.input_schema)) if self.given_schema is None else self.input_schema

    # 0.1 ms of each tool, and the Tools page asks for all of them.
    @cached_property
    def list_tokens(self) -> int:
        """About how many tokens it costs a model to be shown this tool."""
        import orjson

        from tools.kit.llm_tokens import estimate

        shown = {"name": self.name, "description": self.description, "inputSchema": self.listed_schema}
        return estimate(orjson.dumps(shown).decode())

    @property
    def has_own_cursor(self) -> bool:
        """Whether the tool itself goes on somewhere: then a cursor that is not the host's is for the tool."""
        return self._has_own(CURSOR)

    def is_size(self, argument: str) -> bool:
        """Whether a caller says with this argument how large the result may be."""
        field = self.parameters.fields.get(argument)
        return field is not None and field.is_size

    # Up to 0.4 ms, and every list in compact form asks for it.
    @cached_property
    def result_type(self) -> type[Result]:
        found = typing.get_type_hints(self.function).get("return")
        # Of several types the first is the usual one.
        found = next(iter(typing.get_args(found)), found)
        return found if isinstance(found, type) and issubclass(found, Result) else Result

    @property
    def header_arguments(self) -> dict[str, str]:
        """The arguments that an HTTP client repeats in a header, by which a proxy can route; each with its header."""
        properties: dict[str, Any] = self.input_schema.get("properties", {})
        return {name: schema["x-mcp-header"] for name, schema in properties.items() if "x-mcp-header" in schema}

    @property
    def command_keyword(self) -> str | None:
        """The argument that is a command line."""
        return next((each.keyword for each in self.own_parameters.by_name.values() if each.field.is_command), None)

    @property
    def runs_commands(self) -> bool:
        """Whether its calls run a command, or type into one, that rules are matched with."""
        return self.typed is not None or self.command_keyword is not None

    # Kept, as the next one, because it has parameters and schemas of its own.
    @cached_property
    def with_focus(self) -> Tool:
        """The same tool as callers see it where its output may be pruned; itself where that is not for the host."""
        return replace(self, takes_focus=True) if self.focus == "allowed" and not self._has_own(FOCUS) else self

    @cached_property
    def with_cursor(self) -> Tool:
        """The same tool as callers see it whose results are kept short."""
        return replace(self, takes_cursor=True)

    @property
    def annotations(self) -> dict[str, Any]:
        """The hints that MCP clients use to decide what to ask a person about."""
        return {
            "title": self.title,
            "readOnlyHint": self.effect == "read",
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.effect == "execute",
        }

    @property
    def _host_defaults(self) -> dict[str, Any]:
        """What the host adds to the arguments of a tool that somebody else describes, where the caller says nothing."""
        return self.parameters.parse({})

    def parse_tolerantly(self, arguments: Mapping[str, Any], *, habits: bool) -> tuple[dict[str, Any], list[str]]:
        """What `parse` gives, and notes on what was changed: an argument that does not fit and can have only one
        meaning is taken to have it. With `habits` the arguments of other programs are, too. Raises InvalidParams."""
        notes: list[str] = []
        try:
            parsed = self.parse(arguments)
        except InvalidParams:
            if self.given_schema is not None:
                raise
            meant, notes = take_habits(self.name, arguments) if habits else (arguments, notes)
            parameters = self.parameters if habits else self.parameters.public
            mended, taken = mend(parameters, meant)
            notes += taken.changes
            try:
                parsed = self.parse(mended, parameters)
            except InvalidParams as error:
                # The remaining problems are about the arguments after the changes.
                how = f" ({'; '.join(told)})" if (told := notes + taken.names) else ""
                raise InvalidParams(f"{error.message}{how}", issues=error.issues) from None
        for keyword in self.own_parameters.path_keywords:
            path = parsed.get(keyword)
            if path and path[0] in ODD_STARTS and (plain := plain_path(path)) != path:
                parsed[keyword] = plain
                notes.append(f"{keyword.removesuffix('_')} {show(path)} was taken as {show(plain)}")
        return parsed, notes

    def parse(self, arguments: Mapping[str, Any], parameters: Parameters | None = None) -> dict[str, Any]:
        """Keyword arguments for the function, and the focus question. Raises InvalidParams with every problem."""
        if self.given_schema is None:
            parsed = (parameters or self.parameters.public).parse(arguments)
        else:
            ours = self.parameters.by_name.keys()
            if ours.isdisjoint(arguments):
                parsed = {**arguments, **self._host_defaults}
            else:
                parsed = {name: value for name, value in arguments.items() if name not in ours}
                parsed.update(self.parameters.parse({name: arguments[name] for name in ours if name in arguments}))
        if self.takes_cursor and not self.has_own_cursor:
            # A call with a cursor is answered by the host; here there is none, or it is null.
            del parsed[CURSOR]
        return parsed

    def _has_own(self, argument: str) -> bool:
        if self.given_schema is None:
            return argument in self.own_parameters.names
        return argument in self.given_schema.get("properties", {})


def tool(
    category: str,
    *,
    effect: Effect,
    title: str = "",
    destructive: bool = False,
    idempotent: bool | None = None,
    deadline_s: float = 120.0,
    instant: Callable[..., bool] | None = None,
    schema: Mapping[str, Any] | None = None,
    aliases: tuple[str, ...] = (),
    known_as: tuple[str, ...] = (),
    hints: Mapping[str, str] | None = None,
    focus: Focus = "never",
    name: str = "",
    description: str = "",
    whole_description: str = "",
    check: Callable[..., object] | None = None,
    preview: Callable[..., ChangePreview] | None = None,
    typed: Callable[..., str] | None = None,
) -> Callable[[Callable[..., Any]], Tool]:
    """Declare the decorated function as a tool of `category`.

    `schema` is for a tool that somebody else describes and checks: it is shown as it is, and the function is given
    whatever arguments were sent.
    `known_as` are names of other programs for such a tool: a caller that uses one is told this tool's name. `hints` are
    answers for those who look for a tool that does not exist.
    `name` and `description` are for tools that are made while the daemon runs, several from one function.
    """

    def declare(function: Callable[..., Any]) -> Tool:
        called = name or function.__name__
        return Tool(
            name=called,
            category=category,
            effect=effect,
            function=function,
            title=title or called.replace("_", " "),
            destructive=destructive,
            idempotent=effect == "read" if idempotent is None else idempotent,
            deadline_s=deadline_s,
            instant=instant,
            given_schema=schema,
            aliases=aliases,
            known_as=known_as,
            hints=hints or {},
            focus=focus,
            takes_focus=focus == "always",
            given_description=description,
            whole_description=whole_description,
            check=check,
            preview=preview,
            typed=typed,
        )

    return declare


def _without_bounds(schema: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in schema.items() if not _is_obvious(key, value)}
    if "properties" in kept:
        kept["properties"] = {
            name: _without_bounds(each) for name, each in kept["properties"].items() if not _has_one_value(each)
        }
    if isinstance(kept.get("items"), dict):
        kept["items"] = _without_bounds(kept["items"])
    return kept


def _has_one_value(schema: Mapping[str, Any]) -> bool:
    """Whether an argument says nothing: it can only be what it is if it is left out."""
    return schema.get("enum") == [schema.get("default")]


def _is_obvious(key: str, value: Any) -> bool:
    """Whether a model does so by itself: counts are not negative, what it does not ask for is not done."""
    if key == "minimum":
        return isinstance(value, int)
    if key == "default":
        return value is False or value == 0
    if key == "maximum":
        # A share is at most all of it.
        return bool(value >= _LARGE or value == 1)
    return key in _VALIDATOR_KEYS and not isinstance(value, dict)
