"""Why a request is not answered though nothing is wrong with it."""

from __future__ import annotations


class BusyError(Exception):
    """The queue is full, or the server is going: to be sent again later."""


class TooSlowError(Exception):
    """The time of the request is over."""


class TooLongError(ValueError):
    """More than the model may be given to read."""


__all__ = ["BusyError", "TooLongError", "TooSlowError"]
