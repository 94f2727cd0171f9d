"""A stage on a disk that is too small: `python small_disk.py SCENARIO.json`, in a mount namespace of its own.

For each size the stage runs on a new file system of that size, then once more, with --resume, when it has been given
room. Prints what each run said and left. Prints nothing where the system does not let us mount.
"""

import contextlib
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

from greffe.train.checkpoints import find_fault, list_checkpoints
from greffe.train.cli import main as greffe


def run(command: list[str]) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        code = greffe(command)
    return code, said.getvalue()


def mount(disk: Path, *options: str) -> bool:
    done = subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", disk], capture_output=True)
    return done.returncode == 0


def try_size(command: list[str], disk: Path, size: int) -> dict | None:
    if not mount(disk, "-o", f"size={size}"):
        return None
    output = disk / "run"
    code, said = run([*command, "--output", str(output)])
    checkpoints = list_checkpoints(output)
    result = {
        "size": size,
        "code": code,
        "lines": [line for line in said.splitlines() if line.startswith("greffe: ")],
        "checkpoints": [path.name for path in checkpoints],
        "faults": [fault for path in checkpoints if (fault := find_fault(path))],
        "left": sorted(path.name for path in output.iterdir()) if output.exists() else [],
    }
    if code:
        mount(disk, "-o", "remount,size=64m")
        result["resumed"], result["said"] = run([*command, "--output", str(output), "--resume"])
    kept = disk.parent / f"kept-{size}"
    shutil.copytree(output, kept, ignore=shutil.ignore_patterns("checkpoint-*"))
    subprocess.run(["umount", disk], check=True)
    return result


def main() -> None:
    scenario = json.loads(Path(sys.argv[1]).read_text())
    disk = Path(scenario["disk"])
    disk.mkdir()
    results = [try_size(scenario["command"], disk, size) for size in scenario["sizes"]]
    print(json.dumps(None if None in results else results))


if __name__ == "__main__":
    main()
