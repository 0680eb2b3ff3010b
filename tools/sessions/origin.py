"""Who a command was started for, and how it was ended: what tools and wires know of a session without having one."""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

EndedBy = Literal["timeout", "age", "disconnect", "shutdown"]


class Origin(NamedTuple):
    """Who a command was started for: the token, and what the client says of its connection, its user and its chat."""

    token: str = ""
    connection: str = ""
    user: str = ""
    chat: str = ""
    # What the program calls itself.
    client: str = ""

    @property
    def conversation(self) -> str:
        """What an identity belongs to: the chat, else the connection; empty if the call names neither."""
        narrowest = self.chat or self.connection
        return f"{self.token}/{narrowest}" if narrowest else ""

    @property
    def conversations(self) -> tuple[str, ...]:
        """What identifies the conversation, closest first: output that one has read is still new for another."""
        chat = f"{self.token}/{self.chat}" if self.chat else ""
        return tuple(filter(None, (self.connection, chat)))

    @property
    def program(self) -> str:
        """What stands for the conversation where a client names none: the token and the name of the client."""
        return f"{self.token}//{self.client}"

    @property
    def names(self) -> tuple[str, ...]:
        """What the conversation is remembered by, closest first; never empty."""
        return self.conversations or (self.program,)


class Ending(Struct, frozen=True):
    """How the processes of a command were ended: whether SIGKILL was needed after the grace, and what is alive in spite
    of it, each by its pid and command line."""

    escalated: bool = False
    left: tuple[str, ...] = ()
