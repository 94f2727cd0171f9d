"""What Greffe should reach, each a ratio in one run, and whether it does."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .report import Case


@dataclass(frozen=True)
class Target:
    benchmark: str
    case: str
    peer: str
    value: float  # how many times better; of memory, the largest share
    memory: bool = False

    def measure(self, cases: Sequence[Case]) -> float | None:
        """The value that was reached; None if this was not measured."""
        for case in cases:
            if (case.benchmark, case.name) == (self.benchmark, self.case) and self.peer in case.measured:
                return case.memory_share(self.peer) if self.memory else statistics.median(case.ratios(self.peer))
        return None

    def judge(self, reached: float | None) -> str:
        if reached is None:
            return "not measured"
        met = reached <= self.value if self.memory else reached >= self.value
        if met:
            return "met"
        return f"short by {(reached / self.value if self.memory else self.value / reached) - 1:.0%}"


def _pretraining(case: str) -> list[Target]:
    loop, gpt2 = "experiment's loop", "gpt-2, Trainer"
    return [
        Target("pretrain", case, loop, 3.0),
        Target("pretrain", case, gpt2, 2.0),
        Target("pretrain", case, loop, 1 / 3, memory=True),
        Target("pretrain", case, gpt2, 1 / 3, memory=True),
        Target("pretrain", case, "products alone", 0.6),
    ]


TARGETS = [
    *_pretraining("experiment, blocks of 64"),
    *_pretraining("experiment, blocks of 256"),
    Target("pretrain", "small, blocks of 256", "gpt-2, Trainer", 2.0),
    *(Target("finetune", size, "gpt-2, padded to 256", 3.0) for size in ("experiment", "small")),
    *(Target("classify", f"{size}, many texts", "gpt-2, padded to 256", 3.0) for size in ("experiment", "small")),
    *(
        Target("generate", f"{size}, batch of {prompts}", "gpt-2", 1.5)
        for size in ("experiment", "small")
        for prompts in (1, 16)
    ),
    *(Target("growth", f"processes of one thread, {size}", "one process", 1.7) for size in ("experiment", "small")),
]


def judge_targets(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Each target with what was reached and the verdict."""
    judged = [(target, target.measure(cases)) for target in TARGETS]
    return [{**vars(target), "reached": reached, "verdict": target.judge(reached)} for target, reached in judged]


def print_targets(cases: Sequence[Case]) -> None:
    """One table: what was wanted, what was reached, and by how much it falls short."""
    print(f"\n{'targets':<54}{'against':<28}{'wanted':>12}{'reached':>10}  ")
    for target in judge_targets(cases):
        name = f"{target['benchmark']}, {target['case']}"
        wanted = f"{'memory <=' if target['memory'] else '>='} {target['value']:.2f}"
        reached = "" if target["reached"] is None else f"{target['reached']:.2f}"
        print(f"{name:<54}{target['peer']:<26}{wanted:>14}{reached:>10}  {target['verdict']}", flush=True)


__all__ = ["TARGETS", "Target", "judge_targets", "print_targets"]
