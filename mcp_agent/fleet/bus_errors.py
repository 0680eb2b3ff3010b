"""What can become of a message on the bus, and why a fleet cannot be joined."""

from __future__ import annotations

from registry.user_error import UserError


class FleetError(UserError):
    """The fleet cannot be joined or served as it was asked for."""


class BusError(Exception):
    """A message was not delivered, or its answer did not come."""


class NoResponders(BusError):
    """Nobody serves the subject: the request was not delivered."""


class TimedOut(BusError):
    """No answer within the time, or no room to send: the request may have been delivered."""


class Disconnected(BusError):
    """There is no connection. `is_sent`: it broke before the answer came, so the request may have been delivered."""

    def __init__(self, message: str, *, is_sent: bool) -> None:
        super().__init__(message)
        self.is_sent = is_sent


class TooLarge(BusError):
    """The payload is over the server's limit (`Bus.max_payload`); nothing was sent."""


class NotPermitted(BusError):
    """The credentials do not allow the subject; nothing was delivered."""
