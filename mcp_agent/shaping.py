"""How a result is written, and what happens when it is too large for one message.

A message has at most 1,000,000 bytes. A larger result is kept whole as an artifact, and what is sent is its
beginning with the reference and the call that fetches the rest. If it cannot be kept, as much as fits is sent.
"""

from __future__ import annotations

from typing import Any, Literal

import orjson

from mcp_agent.artifacts import ArtifactStore
from mcp_agent.calls import Blocks, Caller, Outcome, Written
from registry.profiles import Form

MOST_MESSAGE_BYTES = 1_000_000
# Room for the envelope around a result: the id, the era's fields and the framing of an event.
_ENVELOPE_BYTES = 4_096
MOST_RESULT_BYTES = MOST_MESSAGE_BYTES - _ENVELOPE_BYTES
# What is sent of a result whose whole is kept: a model that wants more can have it.
_PREVIEW_BYTES = 100_000

# Programs that put a result before a model as it is, by the name in their `clientInfo`.
TEXT_CLIENTS = (
    "claude-code",
    "claude-ai",
    "codex-mcp-client",
    "gemini-cli-mcp-client",
    "Visual Studio Code",
    "github-copilot-developer",
    "cursor-vscode",
    "Zed",
    "opencode",
    "goose",
)
_TEXT_CLIENTS = frozenset(name.lower() for name in TEXT_CLIENTS)


def chosen(profile_form: Form, caller: Caller) -> Literal["json", "text"]:
    """The connection's own word first, then the profile's, then what is known of the client."""
    form = profile_form if caller.form == "auto" else caller.form
    if form != "auto":
        return form
    return "text" if caller.client.lower() in _TEXT_CLIENTS else "json"


class Shaper:
    """Writes outcomes. May be used from any thread."""

    def __init__(self, artifacts: ArtifactStore) -> None:
        self._artifacts = artifacts

    def shaped(self, outcome: Outcome, caller: Caller, domain: str) -> Outcome:
        """`outcome` with what goes out of it, small enough for one message. Touches the disk only if it is cut."""
        written = self.fitting(outcome, caller)
        if written is not None:
            return outcome.as_written(written)
        if chosen(outcome.form, caller) == "text":
            whole = outcome.render().encode("utf-8", "replace")
            written = self._spilled_text(whole, caller, domain)
        else:
            value = outcome.as_object()
            whole = orjson.dumps(value)
            written = self._spilled_object(value, whole, caller, domain)
        return outcome.as_written(written, len(whole))

    def fitting(self, outcome: Outcome, caller: Caller) -> Written | None:
        """`outcome` as it goes out if that fits one message, else None."""
        blocks = outcome.result.blocks() if outcome.result is not None and caller.is_on_mcp else None
        if blocks is not None:
            encoded = orjson.dumps(blocks)
            return Blocks(encoded) if len(encoded) <= MOST_RESULT_BYTES else None
        if chosen(outcome.form, caller) == "text":
            text = outcome.render()
            return text if len(text) * 6 <= MOST_RESULT_BYTES or _text_bytes(text) <= MOST_RESULT_BYTES else None
        encoded = orjson.dumps(outcome.as_object())
        if caller.transport == "rpc" and outcome.result is not None and outcome.result.is_owed_whole:
            return encoded
        return encoded if len(encoded) * 3 <= MOST_RESULT_BYTES or _json_bytes(encoded) <= MOST_RESULT_BYTES else None

    def _spilled_text(self, whole: bytes, caller: Caller, domain: str) -> str:
        text = whole.decode()
        reference, problem = self._kept(whole, "text/plain", caller, domain)
        note = f"\n… cut: the whole has {len(whole)} bytes. {_advice(reference, problem)}"
        size = _PREVIEW_BYTES if reference is not None else MOST_RESULT_BYTES - len(note) * 6
        shown = text[:size]
        while _text_bytes(shown) > size:
            shown = shown[: len(shown) * 3 // 4]
        return shown + note

    def _spilled_object(self, value: dict[str, Any], encoded: bytes, caller: Caller, domain: str) -> bytes:
        reference, problem = self._kept(encoded, "application/json", caller, domain)
        room = _PREVIEW_BYTES if reference is not None else MOST_RESULT_BYTES
        facts: dict[str, Any] = {"truncated": True, "result_bytes": len(encoded)}
        if reference is not None:
            facts["artifactRef"] = reference
        facts["hint"] = _advice(reference, problem)
        return _fitted(value, facts, room)

    def _kept(self, whole: bytes, media_type: str, caller: Caller, domain: str) -> tuple[str | None, str]:
        try:
            return self._artifacts.of(caller.name).keep(domain, [whole], media_type=media_type), ""
        except OSError as error:
            return None, (error.strerror or str(error)).lower()


def _advice(reference: str | None, problem: str) -> str:
    if reference is None:
        return f"The rest is lost, because it could not be kept: {problem}. Ask for less at once."
    return f'Read all of it with artifact_read {{"ref": "{reference}"}}, or search it with fs_grep, base: the same ref.'


def _fitted(value: dict[str, Any], facts: dict[str, Any], room: int) -> bytes:
    """The object with its longest list or text cut until it fits, and `facts` beside it."""
    shown = {**value, **facts}
    while True:
        encoded = orjson.dumps(shown)
        size = _json_bytes(encoded)
        if size <= room:
            return encoded
        key = max((key for key in shown if key not in facts), key=lambda key: _length(shown[key]), default=None)
        if key is None or _length(shown[key]) <= 2:
            return orjson.dumps(facts)
        whole = shown[key]
        keep = max(min(len(whole) * room // size, len(whole) * 3 // 4), 0)
        shown[key] = whole[:keep] if isinstance(whole, str | list) else None


def _length(value: Any) -> int:
    """How much there is to cut, in bytes."""
    return len(orjson.dumps(value))


def _text_bytes(text: str) -> int:
    return len(orjson.dumps(text.encode("utf-8", "replace").decode()))


def _json_bytes(encoded: bytes) -> int:
    """An object goes out twice: once as it is, once as the text of it, with its quotes escaped."""
    return len(encoded) + len(orjson.dumps(encoded.decode()))
