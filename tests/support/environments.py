"""Python environments for tests of what a package looks like from outside."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path


def without_greffe(folder: Path) -> Path:
    """The interpreter of an environment that has every dependency of this one, but not Greffe.

    It borrows this environment's packages through a path file. Path files are not read in turn in what one of them
    names, and an editable Greffe is found through one.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "python"


def run_python(python: Path | str, code: str, cwd: Path, **environment: str) -> object:
    """Run code in a process of its own, away from the repository, and read the JSON of its last line."""
    done = subprocess.run(
        [str(python), "-c", code], cwd=cwd, capture_output=True, text=True, env={**os.environ, **environment}
    )
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])
