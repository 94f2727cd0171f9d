"""What writers leave is removed when they are dead or long gone, and not before."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from greffe.hub import LocalHub
from greffe.hub.staging import LIFETIME, private_folder, staging_area, sweep, uploads_folder, xet_folder


def test_an_area_that_is_held_is_not_swept(hub: LocalHub) -> None:
    with staging_area(hub.path) as area:
        (area / "file").write_text("x")
        code = f"from pathlib import Path; from greffe.hub.staging import sweep; sweep(Path({str(hub.path)!r}))"
        subprocess.run([sys.executable, "-c", code], check=True)
        assert (area / "file").read_text() == "x"
    assert not area.exists()


def test_an_area_of_a_killed_writer_is_swept(hub: LocalHub) -> None:
    code = (
        "import os, signal; from pathlib import Path; from greffe.hub.staging import staging_area\n"
        f"with staging_area(Path({str(hub.path)!r})) as area:\n"
        "    (area / 'file').write_text('x'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code])
    assert [*private_folder(hub.path).rglob("file")]
    sweep(hub.path)
    assert [*(private_folder(hub.path) / "staging").iterdir()] == []


@pytest.mark.parametrize(("age", "stays"), [(LIFETIME - 100, True), (LIFETIME + 100, False)])
def test_uploads_wait_for_a_day(age: int, stays: bool, hub: LocalHub) -> None:
    upload: Path = uploads_folder(hub.path, "models--a--b") / "content"
    session: Path = xet_folder(hub.path) / "models--a--b" / "session"
    lock: Path = private_folder(hub.path) / "staging" / "name.lock"
    for file in (upload, session / "xorb", lock):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    for path in (upload, session, lock):
        os.utime(path, (time.time() - age, time.time() - age))
    sweep(hub.path)
    assert [path.exists() for path in (upload, session, lock)] == [stays] * 3
