"""The tools of a mounted server as tools of ours: gated, pruned, cut to their budget and audited like all others."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from mcp_agent.answers.reply import parse_json, text_of
from registry.mounts import Mount
from tools.context import ToolContext
from tools.kit.errors import UpstreamFailed
from tools.kit.results import Block, Body, Content, Result, line_count, quantity
from tools.kit.spec import Effect, Tool, tool
from tools.kit.tolerance import plain_path

# Every client pays for a description with each message. The whole of a longer one is in host://tools/{name}.
_MOST_DESCRIPTION = 400
_FENCE = re.compile(r"^```.*$", re.MULTILINE)
_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n\n")

# Calls the tool that the server describes so for a caller, and gives what the server answered.
CallUpstream = Callable[[ToolContext, Mapping[str, Any], dict[str, Any]], Awaitable[dict[str, Any]]]


class MountedResult(Result, frozen=True):
    """What a mounted server answered: its text, which can be pruned, and its other blocks, such as images."""

    text: str
    others: tuple[Block, ...] = ()
    structured: Mapping[str, Any] | None = None
    # All blocks in their order, as they came, and their text. They are sent as long as the text is as it came.
    sent: tuple[Block, ...] = ()
    sent_text: str = ""
    # What people call the tool.
    title: str = ""

    def as_object(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"text": self.text}
        if self.others:
            facts["content"] = list(self.others)
        if self.structured is not None:
            facts["structuredContent"] = self.structured
        return facts

    def render(self) -> str:
        return self.text

    def summary(self) -> str:
        """What came of the tool, in words: how much there is of each list, the first fields, or the first line."""
        text = self.text.strip()
        match parse_json(text):
            case list(items):
                said = quantity(len(items), "item")
            case dict(fields):
                facts = [f"{len(value)} {name}" for name, value in fields.items() if isinstance(value, list)]
                plain = {name: value for name, value in fields.items() if type(value) in (str, int, float)}
                said = ", ".join([*facts, *(f"{name} {value}" for name, value in plain.items())])
                said = said or quantity(len(fields), "field")
            case _:
                count = line_count(text)
                said = f"{quantity(count, 'line')}, " if count > 1 else ""
                said += text.partition("\n")[0] or quantity(len(self.others), "block")
        return f"{self.title}: {said}"

    @property
    def body(self) -> Body:
        blocks = self.sent
        if not blocks or self.sent_text != self.text:
            text: tuple[Block, ...] = ({"type": "text", "text": self.text},) if self.text or not self.others else ()
            blocks = (*text, *self.others)
        # A page of a browser comes as one fenced block, which a pruner of documents would keep or drop as a whole.
        is_one_block = _longest_fenced_block(self.text) > len(self.text) / 2
        return Body("text", "logs" if is_one_block else None, content=Content(blocks, self.structured))


def mounted_tool(mount: Mount, name: str, entry: Mapping[str, Any], call: CallUpstream) -> Tool:
    """The tool that the server describes with `entry`, under the name that it has here."""

    async def run(ctx: ToolContext, /, **arguments: Any) -> MountedResult:
        _check_paths(ctx, mount, arguments)
        return _result(await call(ctx, entry, arguments), title)

    annotations = entry.get("annotations") or {}
    whole = str(entry.get("description") or "")
    title = str(entry.get("title") or annotations.get("title") or name)
    declare = tool(
        mount.category,
        effect=_effect(annotations),
        title=title,
        destructive=bool(annotations.get("destructiveHint", True)) and not annotations.get("readOnlyHint", False),
        idempotent=bool(annotations.get("idempotentHint", False)),
        deadline_s=mount.timeout_seconds,
        schema=entry.get("inputSchema") or {"type": "object"},
        focus="allowed",
        name=name,
        description=shorten(whole) or f"A tool of the mounted server {mount.category}.",
        whole_description=whole,
    )
    return declare(run)


def resource_links(answer: Mapping[str, Any]) -> list[str]:
    """The resources that an answer points to."""
    return [str(block["uri"]) for block in answer.get("content") or () if block.get("type") == "resource_link"]


def shorten(description: str) -> str:
    """The sentences that fit 400 characters; at least the beginning of the first."""
    if len(description) <= _MOST_DESCRIPTION:
        return description
    ends = [match.end() for match in _SENTENCE_END.finditer(description, 0, _MOST_DESCRIPTION)]
    return description[: ends[-1]].rstrip() if ends else description[: _MOST_DESCRIPTION - 1].rstrip() + "…"


def _longest_fenced_block(text: str) -> int:
    """The length of the longest block between a line that begins with a fence and the next that is one."""
    longest, begins = 0, -1
    for fence in _FENCE.finditer(text):
        if begins < 0:
            begins = fence.start()
        elif fence[0] == "```":
            longest, begins = max(longest, fence.end() - begins), -1
    return longest


def _effect(annotations: Mapping[str, Any]) -> Effect:
    """What a tool does, as far as its server says. A tool of which nothing is said may do anything."""
    return "read" if annotations.get("readOnlyHint") is True else "execute"


def _check_paths(ctx: ToolContext, mount: Mount, arguments: Mapping[str, Any]) -> None:
    """Apply the deny rules for paths to the arguments that the mount names. Raises Denied."""
    for name in mount.paths:
        value = arguments.get(name)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, str):
                ctx.paths.check(ctx.paths.resolve(plain_path(path)))


def _result(answer: Mapping[str, Any], title: str) -> MountedResult:
    """Raises UpstreamFailed for the answer of a tool that failed."""
    blocks: list[Block] = answer.get("content") or []
    text = text_of(blocks)
    if answer.get("isError"):
        raise UpstreamFailed(text or "the mounted server gave no reason")
    structured = answer.get("structuredContent")
    others = tuple([block for block in blocks if block.get("type") != "text"])
    if structured is not None and not blocks:
        # Some clients show a model the blocks alone.
        text = orjson.dumps(structured).decode()
    return MountedResult(text, others, structured if isinstance(structured, dict) else None, tuple(blocks), text, title)
