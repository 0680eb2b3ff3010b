"""How a tool is declared: one function. Its signature is the schema, its docstring is what a model reads.

    @tool("filesystem", effect="read")
    def fs_read(ctx: ToolContext, *, path: Annotated[str, Field(description="…")]) -> FileText:
        \"\"\"Read a text file from its start.\"\"\"

Nothing is registered when a module is imported: `registry.catalog.discover` walks the package and picks up what
the decorator left behind. A `def` runs in a worker thread, an `async def` on the event loop. A tool that is
usually over in microseconds names a test for that (`instant`): calls that pass it run on the loop itself, since
handing work to a thread costs ten times as much as reading a small file.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

from tools.kit.focus import FOCUS, FOCUSABLE, FocusQuestion
from tools.kit.params import Field, Parameters
from tools.kit.results import Result

Effect = Literal["read", "write", "execute"]

# The argument that goes on where a short result stopped. The host adds it, and answers it, unknown to the tool.
CURSOR = "cursor"
Cursor = Annotated[str | None, Field(description="The nextCursor of an earlier answer, to go on.")]


@dataclass(eq=False, repr=False)
class Tool:
    """One tool, as the catalogue knows it. Nobody changes it."""

    name: str
    category: str
    effect: Effect
    function: Callable[..., Any]
    title: str
    destructive: bool
    idempotent: bool
    deadline_s: float
    instant: Callable[..., bool] | None
    json_rpc_errors: bool
    given_schema: Mapping[str, Any] | None
    # Further names it can be called by; they are not listed.
    aliases: tuple[str, ...] = ()
    # Whether the host prunes its output when asked. The function itself is not told.
    takes_focus: bool = False
    # Whether its results are kept short, and go on where a cursor says.
    takes_cursor: bool = False

    @cached_property
    def description(self) -> str:
        return inspect.cleandoc(self.function.__doc__ or "")

    @cached_property
    def parameters(self) -> Parameters:
        own = Parameters.of_function(self.function)
        if self.takes_focus:
            own = own.and_also(FOCUS, FocusQuestion)
        return own.and_also(CURSOR, Cursor) if self.takes_cursor and not self.has_own_cursor else own

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        if self.given_schema is None:
            return self.parameters.schema()
        if not self.takes_cursor or self.has_own_cursor:
            return dict(self.given_schema)
        added = Parameters(()).and_also(CURSOR, Cursor).schema()["properties"]
        return {**self.given_schema, "properties": {**self.given_schema.get("properties", {}), **added}}

    @cached_property
    def has_own_cursor(self) -> bool:
        """Whether the tool itself goes on somewhere: then a cursor that is not the host's is for the tool."""
        if self.given_schema is not None:
            return CURSOR in self.given_schema.get("properties", {})
        return CURSOR in Parameters.of_function(self.function).names

    @cached_property
    def result_type(self) -> type[Result]:
        found = typing.get_type_hints(self.function).get("return")
        return found if isinstance(found, type) and issubclass(found, Result) else Result

    @cached_property
    def header_arguments(self) -> dict[str, str]:
        """The arguments that an HTTP client repeats in a header, by which a proxy can route; each with its header."""
        properties: dict[str, Any] = self.input_schema.get("properties", {})
        return {name: schema["x-mcp-header"] for name, schema in properties.items() if "x-mcp-header" in schema}

    @cached_property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    @cached_property
    def with_focus(self) -> Tool:
        """The same tool as callers see it where its output may be pruned; itself where that is not for the host."""
        return replace(self, takes_focus=True) if self.name in FOCUSABLE and self.given_schema is None else self

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

    def parse(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments for the function. Raises InvalidParams with every problem at once."""
        return self.parameters.parse(arguments) if self.given_schema is None else dict(arguments)


def tool(
    category: str,
    *,
    effect: Effect,
    title: str = "",
    destructive: bool = False,
    idempotent: bool | None = None,
    deadline_s: float = 120.0,
    instant: Callable[..., bool] | None = None,
    json_rpc_errors: bool = False,
    schema: Mapping[str, Any] | None = None,
    aliases: tuple[str, ...] = (),
) -> Callable[[Callable[..., Any]], Tool]:
    """Declare the decorated function as a tool of `category`.

    `json_rpc_errors` is for the tools whose contract answers arguments that do not fit with the JSON-RPC error
    -32602; all others answer with a result that says what would fit. `schema` is for a tool that somebody else
    describes and checks: it is shown as it is, and the function is given whatever arguments were sent.
    """

    def declare(function: Callable[..., Any]) -> Tool:
        name = function.__name__
        return Tool(
            name=name,
            category=category,
            effect=effect,
            function=function,
            title=title or name.replace("_", " "),
            destructive=destructive,
            idempotent=effect == "read" if idempotent is None else idempotent,
            deadline_s=deadline_s,
            instant=instant,
            json_rpc_errors=json_rpc_errors,
            given_schema=schema,
            aliases=aliases,
        )

    return declare
