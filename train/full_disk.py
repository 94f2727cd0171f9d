"""A full disk by one name: each library that writes has its own error for it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# What torch says when it cannot write on; it does not say why.
_OF_TORCH = ("PytorchStreamWriter failed", "inline_container.cc", "iostream error")


class FullDiskError(OSError):
    """There was no room for what had to be written."""


@contextmanager
def explain_full_disk(folder: Path, remedy: str = "free some space and continue with --resume") -> Iterator[None]:
    """Turn whatever a full disk makes a library raise into one error that says what to do."""
    try:
        yield
    except FullDiskError:
        raise
    except Exception as error:
        reason = _find_reason(error)
        if reason is None:
            raise
        raise FullDiskError(f"expected room in {folder}, found the disk full ({reason}); {remedy}") from error


def _find_reason(error: BaseException | None) -> str | None:
    """The system's words for it, from an error or from what caused it; None if it is about something else."""
    while error is not None:
        text = str(error)
        for number in _FULL:
            if getattr(error, "errno", None) == number or os.strerror(number) in text:
                return os.strerror(number)
        if isinstance(error, RuntimeError) and any(words in text for words in _OF_TORCH):
            return "a write failed"
        # As Python prints them: what was raised `from None` hides what it came from, which may name it as its cause.
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None


__all__ = ["FullDiskError", "explain_full_disk"]
