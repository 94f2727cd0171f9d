"""Text that is shown in a terminal as it is: it must not command it."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def harmless(text: str) -> str:
    """The text with \ufffd for each control character but tabs and line ends."""
    return _CONTROL.sub("\ufffd", text)


__all__ = ["harmless"]
