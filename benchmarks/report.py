"""What was measured, as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .rounds import Measured

CEILING = "products alone"  # the contender that is a limit
# Facts that are shares.
_SHARES = {"of ceiling", "padding", "work on padding"}


@dataclass
class Case:
    """Contenders at one piece of work."""

    benchmark: str
    name: str
    unit: str
    measured: dict[str, Measured]
    base: str = "greffe"  # what the others are compared with
    less_is_better: bool = False  # of seconds, say

    def ratios(self, peer: str) -> list[float]:
        """How many times better the base was than a peer, in each round."""
        pairs = zip(self.measured[self.base].values, self.measured[peer].values, strict=True)
        return [theirs / ours if self.less_is_better else ours / theirs for ours, theirs in pairs]

    def memory_share(self, peer: str) -> float | None:
        """The base's peak of memory, as a share of a peer's."""
        ours, theirs = self.measured[self.base].peak_megabytes, self.measured[peer].peak_megabytes
        return ours / theirs if ours is not None and theirs else None

    def to_dict(self) -> dict[str, Any]:
        contenders = {
            name: {
                "median": statistics.median(measured.values),
                **vars(measured),
                **({} if name == self.base else {"ratios": self.ratios(name)}),
            }
            for name, measured in self.measured.items()
        }
        return {"case": self.name, "unit": self.unit, "base": self.base, "contenders": contenders}


def add_shares(measured: dict[str, Measured]) -> None:
    """To each contender, what share of the ceiling it reaches."""
    ceiling = statistics.median(measured[CEILING].values)
    for contender in measured.values():
        contender.facts["of ceiling"] = statistics.median(contender.values) / ceiling


def print_case(case: Case) -> None:
    rounds = len(case.measured[case.base].values)
    with_memory = any(measured.peak_megabytes is not None for measured in case.measured.values())
    facts = sorted({name for measured in case.measured.values() for name in measured.facts})
    width = max(36, *(len(name) + 2 for name in case.measured))

    print(f"\n{case.benchmark}, {case.name}: {case.unit}, {rounds} round{'s' if rounds > 1 else ''}")
    header = f"{'':<{width}}{'median':>9}{'spread':>20}{case.base + ' is':>18}{'spread':>18}"
    header += f"{'peak MB':>9}{'steps':>7}" if with_memory else ""
    print(header + "".join(f"{name:>{len(name) + 2}}" for name in facts))
    for name, measured in case.measured.items():
        line = f"{name:<{width}}{_number(statistics.median(measured.values)):>9}{_spread(measured.values):>20}"
        if name == case.base:
            line += " " * 36
        else:
            ratios = case.ratios(name)
            line += f"{_number(statistics.median(ratios)) + ' x':>18}{_spread(ratios):>18}"
        if measured.peak_megabytes is not None and measured.held_megabytes is not None:
            peak, held = measured.peak_megabytes, measured.held_megabytes
            line += f"{peak:>9,.0f}{peak - held:>7,.0f}"
        line += "".join(f"{_fact(fact, measured):>{len(fact) + 2}}" for fact in facts)
        print(line.rstrip(), flush=True)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _spread(values: Sequence[float]) -> str:
    return f"{_number(min(values))} to {_number(max(values))}"


def _fact(name: str, measured: Measured) -> str:
    if name not in measured.facts:
        return ""
    return f"{measured.facts[name]:.0%}" if name in _SHARES else _number(measured.facts[name])


def describe_machine() -> dict[str, Any]:
    """Where the figures come from: without it they mean nothing."""
    import torch
    from greffe.train.machine import native_bf16

    packages = ("greffe", "torch", "transformers", "tokenizers", "datasets", "accelerate", "scikit-learn")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "native_bf16": native_bf16(),
        "load": os.getloadavg()[0],  # more than a little says that the machine was not quiet
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def write_json(path: Path, cases: Sequence[Case], about: dict[str, Any]) -> None:
    """The cases of each benchmark, and what is said about all of them."""
    content: dict[str, Any] = {**about, "cases": {}}
    for case in cases:
        content["cases"].setdefault(case.benchmark, []).append(case.to_dict())
    path.write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")


__all__ = ["CEILING", "Case", "add_shares", "describe_machine", "print_case", "write_json"]
