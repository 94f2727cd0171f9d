"""The example runs as it stands, and shows both ways."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "hub.py"


def test_example(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, EXAMPLE], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1::2] == ["from the directory:", "through the server:", "the server has ['team/copy', 'team/tiny']"]
    assert lines[2] == lines[4] == "loaded team/tiny@v1 with 19,394 parameters"
    assert lines[6] == "and in the log: ['From a client', 'Create the repository']"
