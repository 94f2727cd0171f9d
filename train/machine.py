"""What depends on the machine: products in bf16, and memory that one step frees and the next one needs."""

from __future__ import annotations

import ctypes
import sys

import torch

# Lengths of batches of uneven texts come in multiples of this in bf16. For each shape of a product torch keeps a
# program of its own: in fine-tuning, with every length up to 256, they took 800 MB.
BF16_LENGTHS = 16
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # names of options in malloc.h


def native_bf16() -> bool:
    """Whether the processor multiplies bf16 matrices itself; where it does not, bf16 is many times slower."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


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


__all__ = ["BF16_LENGTHS", "keep_freed_memory", "native_bf16"]
