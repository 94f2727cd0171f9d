"""Memory that one step frees and the next one needs: kept in the process, where the C library would return it."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # names of options in malloc.h


def keep_freed_memory() -> None:
    """Have glibc keep large blocks that are freed, for the rest of the process; elsewhere nothing is done.

    It maps each large tensor anew and unmaps it again, and the system clears every page in between: at the size of the
    reference experiment a fifth of a step's time.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, -1)


__all__ = ["keep_freed_memory"]
