"""The runs of a comparison, each a file of its own: what is finished is found again, what is stale is not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..run_folder import write_json
from .words import METHODS, name_method


@dataclass(frozen=True)
class Run:
    """One training: a method on one sample of the labels, with one seed."""

    method: str
    budget: str
    seed: int

    def __str__(self) -> str:
        labels = "all labels" if self.budget == "all" else f"{int(self.budget):,} labels"
        return f"{name_method(self.method)}, {labels}, seed {self.seed}"

    @property
    def name(self) -> str:
        return f"{self.method}-{self.budget}-seed{self.seed}"


class RunStore:
    """Finished runs in a folder, each with the hash of all that it depends on."""

    def __init__(self, folder: Path, depends_on: Any):
        self.folder = folder
        self._common = json.dumps(depends_on, sort_keys=True, default=str)

    def find(self, run: Run) -> dict[str, Any] | None:
        """The result of a finished run; None where there is none, or one of other data, settings or versions."""
        try:
            content = json.loads(self._path(run).read_text(encoding="utf-8"))
            return content["result"] if content["key"] == self._key(run) else None
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):  # not a whole file of ours
            return None

    def is_stale(self, run: Run) -> bool:
        return self._path(run).exists() and self.find(run) is None

    def write(self, run: Run, result: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self._path(run), {"key": self._key(run), "result": result}, indent=None)

    def _path(self, run: Run) -> Path:
        return self.folder / f"{run.name}.json"

    def _key(self, run: Run) -> str:
        return hashlib.sha256(f"{self._common}\n{run.name}".encode()).hexdigest()


def plan_runs(methods: Iterable[str], budgets: Iterable[str], seeds: int) -> list[Run]:
    """Seed by seed, so that a comparison that is cut short has whole seeds; the quick ones first."""
    methods, budgets = list(methods), list(budgets)
    unknown = sorted(set(methods) - set(METHODS))
    if unknown or not methods:
        raise ValueError(f"expected --methods among {list(METHODS)}, found {unknown or 'none'}")
    if seeds < 1:
        raise ValueError(f"expected --seeds of at least 1, found {seeds}")
    ordered = [method for method in METHODS if method in methods]
    return [Run(method, budget, seed) for seed in range(seeds) for budget in budgets for method in ordered]


__all__ = ["Run", "RunStore", "plan_runs"]
