"""What depends on the machine: memory that is kept between steps."""

import os
import subprocess
import sys

import pytest

# Touches 64 MB sixty times, freed each time, and says how many pages the system had to provide.
SCRIPT = """
import resource, sys
import torch
from greffe.train.machine import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(60):
    torch.zeros(1 << 24).add_(1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or "glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or ""),
    reason="only glibc is told",
)
def test_freed_memory_is_used_again() -> None:
    faults = {
        how: int(subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=True).stdout)
        for how in ("keep", "return")
    }
    # Without it each of the sixty has new pages; with it the heap grows by a few at first.
    assert faults["keep"] * 3 < faults["return"]
