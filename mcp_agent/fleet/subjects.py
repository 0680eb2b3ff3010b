"""The names of a fleet: the subjects that its members and gateways speak on, and the boxes in the ids that they give.

A subject ends in the name of the gateway, so that the permissions of NATS bind it. The boot id of the box is in it, so
that a call never reaches another start of the box than the one it was sent to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from mcp_agent.settings import BOX_NAME

Verb = Literal["call", "read", "cancel"]
VERBS: tuple[Verb, ...] = get_args(Verb)

# Everybody who hears it says who they are.
WHO = "agent.who"
EVERY_BEAT = "agent.*.beat"
EVERY_OUTPUT = "agent.*.output"

_BOX = BOX_NAME.pattern
# A reference that a result gave, wherever in the arguments it stands.
_REFERENCE = re.compile(rf"(?:ax://[a-z0-9_-]{{1,40}}/[0-9a-f]{{20}}|undo://[0-9a-z]+)-({_BOX})(?:[/?].*)?", re.DOTALL)
_RESOURCE = re.compile(rf"{_REFERENCE.pattern}|session://[0-9a-z]+-({_BOX})(?:\?.*)?", re.DOTALL)
_CURSOR = re.compile(rf"c1_[A-Za-z0-9_-]+\.({_BOX})")
# Ids that mean something only in these arguments.
_ID = re.compile(rf"(?:prn_)?[0-9a-z]+-({_BOX})")
_ID_ARGUMENTS = ("session_id", "undo_id", "prune_id", "id")
_MOST_CHARS = 1_000


def verb_subject(box: str, boot: str, verb: Verb, gateway: str) -> str:
    return f"agent.{box}.{boot}.{verb}.{gateway}"


def who_subject(box: str) -> str:
    return f"agent.{box}.who"


def beat_subject(box: str) -> str:
    return f"agent.{box}.beat"


def output_subject(box: str) -> str:
    return f"agent.{box}.output"


def gateway_of(subject: str) -> str:
    """The gateway that a message on a subject of `verb_subject` comes from."""
    return subject.rpartition(".")[2]


def box_of_uri(uri: str) -> str | None:
    """The box that has a resource: a session, an artifact or a former state of a file."""
    match = _RESOURCE.fullmatch(uri)
    return None if match is None else match[1] or match[2]


def boxes_in(arguments: Mapping[str, Any]) -> set[str]:
    """The boxes that gave the ids, references and cursors among the arguments of a call."""
    found = set()
    for name, value in arguments.items():
        if type(value) is not str or ("-" not in value and "." not in value) or len(value) > _MOST_CHARS:
            continue
        match = _REFERENCE.fullmatch(value)
        if match is None and name == "cursor":
            match = _CURSOR.fullmatch(value)
        if match is None and name in _ID_ARGUMENTS:
            match = _ID.fullmatch(value)
        if match is not None:
            found.add(match[1])
    return found
